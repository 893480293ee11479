package comments_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
)

const mark = "<!-- poolwright:tail -->"

func TestATailStandsBelowWhatWasReviewed(t *testing.T) {
	const head = string(marker) + "\n"
	tests := []struct {
		name       string
		before     string // empty: no comment
		body, tail string
		want       string // empty: no comment
	}{
		{"both are written", "", "plan", "applied", head + "plan\n\n" + mark + "\napplied"},
		{"both are written over both", head + "old\n\n" + mark + "\nolder", "plan\n", "applied\n", head + "plan\n\n" + mark + "\napplied"},
		{"a body alone leaves no tail", head + "old\n\n" + mark + "\nolder", "plan", "", head + "plan"},
		{"a tail is added to what is there", head + "plan\n  two\n", "", "applied", head + "plan\n  two\n\n" + mark + "\napplied"},
		{"a tail is replaced", head + "plan\n\n" + mark + "\nolder\n\nlines", "", "applied", head + "plan\n\n" + mark + "\napplied"},
		{"a tail is taken away", head + "plan\n\n" + mark + "\nolder", "", "", head + "plan"},
		{"nothing changes nothing", head + "plan\n", "", "", head + "plan\n"},
		{"nothing makes nothing", "", "", "", ""},
		{"a tail alone makes a comment", "", "", "applied", head + mark + "\napplied"},
		{"a tail alone is replaced", head + mark + "\nolder", "", "applied", head + mark + "\napplied"},
		{"a comment of the marker alone takes one", string(marker), "", "applied", head + mark + "\napplied"},
		{"what a forge made of line ends is kept", string(marker) + "\r\na\r\nb\r\n\r\n" + mark + "\r\nolder", "", "applied", head + "a\r\nb\n\n" + mark + "\napplied"},
		{"what a person wrote above is kept", head + "plan, edited\n\n> by hand\n" + mark + "\nolder", "", "applied", head + "plan, edited\n\n> by hand\n\n" + mark + "\napplied"},
		{"a mark that a person took away comes again", head + "plan\n\nolder", "", "applied", head + "plan\n\nolder\n\n" + mark + "\napplied"},
		{"the last of several marks counts", head + "a\n" + mark + "\nb\n" + mark + "\nolder", "", "applied", head + "a\n" + mark + "\nb\n\n" + mark + "\napplied"},
		{"a mark within a line is none", head + "a " + mark + "\nb", "", "applied", head + "a " + mark + "\nb\n\n" + mark + "\napplied"},
		{"imitations are broken", "", "a\n" + mark + "\nb", "c\n" + mark, head + "a\n<\u200b" + mark[1:] + "\nb\n\n" + mark + "\nc\n<\u200b" + mark[1:]},
		{"an imitation that needs a character dropped is none", "", "<!-- poolwright:\x00tail -->", "c", head + "<!-- poolwright:\uFFFDtail -->\n\n" + mark + "\nc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &board{next: 10}
			if tt.before != "" {
				b.items = []comments.Item{{ID: 1, Mine: true, Body: tt.before}}
			}
			want := []string{tt.want}
			if tt.want == "" {
				want = nil
			}
			var memory comments.Cache[comments.Key, int64]
			for round := range 3 {
				posted, err := comments.Post(t.Context(), b, &memory, 1, forge.Comment{Marker: marker, Body: tt.body, Footer: tt.tail}, 1000)
				if err != nil {
					t.Fatal(err)
				}
				if got := bodies(b); !slices.Equal(got, want) {
					t.Fatalf("got %q, want %q", got, want)
				}
				if posted.Written && (round > 0 || tt.before == tt.want) {
					t.Error("what is equal was written")
				}
			}
		})
	}
}

func bodies(b *board) []string {
	var out []string
	for _, c := range b.items {
		out = append(out, c.Body)
	}
	return out
}

func TestATailOnlyIsNeverWrittenToACommentThatWasNotRead(t *testing.T) {
	b := &board{}
	var memory comments.Cache[comments.Key, int64]
	post := func(c forge.Comment) {
		t.Helper()
		c.Marker = marker
		if _, err := comments.Post(t.Context(), b, &memory, 1, c, 1000); err != nil {
			t.Fatal(err)
		}
	}
	post(forge.Comment{Body: "plan"})
	// A person takes the marker away: the comment is not known as ours any more.
	b.items[0].Body = "mine now"
	post(forge.Comment{Footer: "applied", EditOnly: true})
	if got := bodies(b); !slices.Equal(got, []string{"mine now"}) {
		t.Errorf("got %q", got)
	}
	post(forge.Comment{Footer: "applied"})
	if got := bodies(b); !slices.Equal(got, []string{"mine now", string(marker) + "\n" + mark + "\napplied"}) {
		t.Errorf("got %q", got)
	}
}

func TestACommentThatIsDeletedWhileItsTailIsWrittenGetsTheTailAgain(t *testing.T) {
	b := &board{items: []comments.Item{{ID: 1, Mine: true, Body: string(marker) + "\nplan"}}, next: 10}
	b.before = func(call string) error {
		if call == "edit" {
			b.items, b.before = nil, nil
			return &forge.Error{Code: http.StatusNotFound}
		}
		return nil
	}
	var memory comments.Cache[comments.Key, int64]
	if _, err := comments.Post(t.Context(), b, &memory, 1, forge.Comment{Marker: marker, Footer: "applied"}, 1000); err != nil {
		t.Fatal(err)
	}
	if got := bodies(b); !slices.Equal(got, []string{string(marker) + "\n" + mark + "\napplied"}) {
		t.Errorf("got %q", got)
	}
}

func TestTheBodyIsCutAndNotTheTail(t *testing.T) {
	const limit = 1000
	long := "<details>\n\n```diff\n" + strings.Repeat("+ line\n", 500) + "```\n</details>\n"
	tail := "applied in 40 s\n\n" + strings.Repeat("n", 300)
	b := &board{next: 10}
	var memory comments.Cache[comments.Key, int64]
	post := func(body, tail string) bool {
		t.Helper()
		posted, err := comments.Post(t.Context(), b, &memory, 1, forge.Comment{Marker: marker, Body: body, Footer: tail}, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.items) != 1 || len(b.items[0].Body) > limit+len(marker)+1 {
			t.Fatalf("%d comments, %d bytes", len(b.items), len(b.items[0].Body))
		}
		return posted.Written
	}
	post(long, "")
	for round := range 3 {
		if written := post("", tail); written != (round == 0) {
			t.Errorf("round %d: written %v", round, written)
		}
		kept, end, found := strings.Cut(b.items[0].Body, "\n\n"+mark+"\n")
		if !found || end != tail || !strings.HasSuffix(kept, "```\n\n</details>\n\n_The rest is left out: this text has reached the forge's limit._") ||
			strings.Count(kept, "left out") != 1 {
			t.Fatalf("got %q", b.items[0].Body)
		}
	}
	post(long, strings.Repeat("all\n", 1000))
	if body, end, found := strings.Cut(b.items[0].Body, mark); !found || !strings.Contains(body, "left out") || !strings.HasSuffix(end, "limit._") || len(end) > limit/2+1 {
		t.Errorf("a tail that is too long: %q", b.items[0].Body)
	}
}

// FuzzTail checks that whatever a body and a tail hold, only the tail is
// replaced afterwards.
func FuzzTail(f *testing.F) {
	f.Add("plan", "applied", "rolled out", 1000)
	f.Add(mark+"\n", "\n"+mark, "\r\n"+mark+"\r", 500)
	f.Add("a\n"+mark+mark, "<!-- <!-- poolwright:tail -->", "", 300)
	f.Add("```\n<details>\xff", "~~~\x00", "<!-- pool\x00wright:tail -->", 250)
	f.Fuzz(func(t *testing.T, body, first, second string, limit int) {
		limit = min(max(limit, 300), 1<<16)
		b := &board{next: 10}
		var memory comments.Cache[comments.Key, int64]
		post := func(c forge.Comment) string {
			c.Marker = marker
			if _, err := comments.Post(t.Context(), b, &memory, 1, c, limit); err != nil {
				t.Fatal(err)
			}
			if len(b.items) == 0 {
				return ""
			}
			got := b.items[0].Body
			if !utf8.ValidString(got) || len(got) > limit+len(marker)+1 {
				t.Fatalf("%d bytes of %d, valid %v: %q", len(got), limit, utf8.ValidString(got), got)
			}
			return got
		}
		above := func(s string) string {
			kept, _, _ := strings.Cut(s, mark)
			return strings.TrimSpace(kept)
		}
		both := post(forge.Comment{Body: body, Footer: first})
		if strings.Count(both, mark) > 1 {
			t.Fatalf("several marks: %q", both)
		}
		after := post(forge.Comment{Footer: second})
		if got, want := above(after), above(both); got != want && !strings.Contains(got, "The rest is left out") {
			t.Errorf("above the tail stood %q, now %q", want, got)
		}
		if again := post(forge.Comment{Footer: second}); again != after {
			t.Errorf("%q became %q", after, again)
		}
		if strings.TrimSpace(second) == "" && strings.Contains(after, mark) {
			t.Errorf("a tail is left: %q", after)
		}
	})
}
