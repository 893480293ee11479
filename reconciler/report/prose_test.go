package report

import (
	"regexp"
	"testing"
)

// bones are a skeleton without the words of warnings, which stand outside of code.
func bones(t *testing.T, md string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)^- \(code\):`+prosaic+`$`).ReplaceAllString(skeleton(t, md), "- (code): (prose)")
}

func TestWhatIsOnlyComparedForNoReasonEndsInNoColon(t *testing.T) {
	for hold, want := range map[string]string{"": "differs, read-only", "run: x": "differs, read-only: run: x"} {
		lines := Options{}.body(Change{Action: "update", ReadOnly: true, Reason: hold})
		if got := lines[len(lines)-1].Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
