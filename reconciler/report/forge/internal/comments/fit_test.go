package comments_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
)

const note = "\n_The rest is left out: this text has reached the forge's limit._\n"

func TestALongTextIsCutAtALineAndClosed(t *testing.T) {
	tests := []struct {
		name, body string
		limit      int
		want       string
	}{
		{"what fits stays", "a\nb", 3, "a\nb"},
		{"a line that does not fit is left out", "first\n" + strings.Repeat("x", 100), 90, "first\n" + note},
		{"a fence is closed", "```diff\n+ a\n" + strings.Repeat("+ b\n", 50), 90, "```diff\n+ a\n+ b\n+ b\n```\n" + note},
		{"a longer fence is closed by as many ticks", "````\n```\nx\n" + strings.Repeat("y\n", 50), 86, "````\n```\nx\ny\ny\n````\n" + note},
		{"details are closed after the fence", "<details><summary>x</summary>\n\n~~~\n" + strings.Repeat("y\n", 50), 125, "<details><summary>x</summary>\n\n~~~\ny\ny\ny\ny\n~~~\n\n</details>\n" + note},
		{"what is closed is not closed again", "<details>\n```\nx\n```\n</details>\n" + strings.Repeat("y", 100), 105, "<details>\n```\nx\n```\n</details>\n" + note},
		{"a tag in a fence is text", "```\n<details>\n```\n" + strings.Repeat("y", 100), 90, "```\n<details>\n```\n" + note},
		{"nothing fits but the note", strings.Repeat("x", 1000), 70, note[1:]},
		{"not even the note fits", strings.Repeat("x", 1000), 5, "_The "},
		{"broken characters are replaced", "a\xffb", 100, "a\uFFFDb"},
	}
	for _, tt := range tests {
		if got := comments.Fit(tt.body, tt.limit); got != tt.want || len(got) > tt.limit {
			t.Errorf("%s: got %d bytes\n%s\nwant\n%s", tt.name, len(got), got, tt.want)
		}
	}
}

// FuzzFit checks that nothing is too long, broken, or left open.
func FuzzFit(f *testing.F) {
	f.Add("<details>\n\n```diff\n+ a\n```\n</details>", 80)
	f.Add("````x\n~~~\n```\n  ```\n\t```\n", 100)
	f.Add("<DETAILS><details></details>\n```a`b\n\xf0\x9f", 120)
	f.Fuzz(func(t *testing.T, body string, limit int) {
		limit = min(max(limit, 0), 1<<16)
		body = strings.Repeat(body, 3)
		got := comments.Fit(body, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("%d bytes of %d, valid %v", len(got), limit, utf8.ValidString(got))
		}
		if again := comments.Fit(got, limit); again != got {
			t.Errorf("what fits was cut again")
		}
		if len(body) > limit && limit > 200 && !strings.HasSuffix(got, note) && !strings.HasSuffix(got, note[1:]) {
			t.Errorf("nobody is told that the rest is left out: %q", got)
		}
	})
}

func TestNamesOfStatusesStayApart(t *testing.T) {
	long := strings.Repeat("é", 200)
	a, b := comments.Context(long+"a"), comments.Context(long+"b")
	if a == b || len(a) > 255 || !utf8.ValidString(a) || comments.Context("poolwright/plan (one)") != "poolwright/plan (one)" {
		t.Errorf("%q and %q", a, b)
	}
	if got := comments.Description("a\n b " + strings.Repeat("é", 200)); utf8.RuneCountInString(got) != 140 || !strings.HasPrefix(got, "a b é") || !strings.HasSuffix(got, "…") {
		t.Errorf("got %q", got)
	}
}
