package markup

import (
	"strings"
	"testing"
)

func TestWhatIsCopiedFromACodeSpanIsWhatWasWritten(t *testing.T) {
	for in, want := range map[string]string{
		"choose al2023@latest or bottlerocket@latest": "`choose al2023@latest or bottlerocket@latest`",
		"@everyone":                             "`@everyone`",
		"<!-- a":                                "`<! -- a`",
		strings.Repeat("`", 100) + " @everyone": "`" + strings.Repeat("ˋ", 100) + " @everyone`",
		strings.Repeat("`", maxTicks-1) + " @org": strings.Repeat("`", maxTicks) + " " + strings.Repeat("`", maxTicks-1) + " @org " + strings.Repeat("`", maxTicks),
	} {
		if got := Span(in); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
