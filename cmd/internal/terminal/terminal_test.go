package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestALineIsBrokenAtSpaces(t *testing.T) {
	for name, c := range map[string]struct {
		line  string
		width int
		want  string
	}{
		"a short one":                     {"a b", 10, "a b\n"},
		"one that is too long":            {"aaaa bbbb cccc", 10, "aaaa bbbb\n  cccc\n"},
		"a part without a space":          {"aaa bbbbbbbbbbbbbbb c", 10, "aaa\n  bbbbbbbbbbbbbbb\n  c\n"},
		"without a terminal":              {"aaaa bbbb cccc", 0, "aaaa bbbb cccc\n"},
		"colours take no columns":         {"\x1b[31maaaa\x1b[0m bbbb c", 11, "\x1b[31maaaa\x1b[0m bbbb c\n"},
		"characters of more than a byte":  {"ääää öööö ü", 11, "ääää öööö ü\n"},
		"spaces within a line are kept":   {"a   b", 10, "a   b\n"},
		"spaces at its beginning as well": {"    remedy that is long", 10, "    remedy\n  that is\n  long\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			Wrap(&out, c.line, "  ", c.width)
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestLinesAreBrokenAndHang(t *testing.T) {
	const text = "short\n    four parts and more of them\nlast"
	if got := WrapLines(text, 0); got != text {
		t.Errorf("without a terminal it is %q", got)
	}
	if got, want := WrapLines(text, 20), "short\n    four parts and\n      more of them\nlast\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParagraphsAreBrokenAnew(t *testing.T) {
	const text = "one two three\nfour five.\n\nsix:\n\n  name   what it is for\n  other\n"
	want := "one two three four\nfive.\n\nsix:\n\n  name   what it is\n         for\n  other"
	if got := Reflow(text, 19); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatIsNoTerminalHasNoWidth(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Width(&bytes.Buffer{}) != 0 || Width(file) != 0 {
		t.Error("a buffer or a file has columns")
	}
	if HelpWidthOf(&bytes.Buffer{}) != HelpWidth {
		t.Error("help has another width there")
	}
}
