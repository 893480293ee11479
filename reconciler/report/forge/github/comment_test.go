package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

var (
	marker = forge.NewMarker("plan", "team/nodes", "one")
	ada    = map[string]any{"id": 1, "login": "ada", "type": "User"}
)

func post(t *testing.T, f forge.Forge, number int, c forge.Comment) forge.PostedComment {
	t.Helper()
	posted, err := f.Comment(t.Context(), number, c)
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

// writes are the requests that change something.
func writes(requests []string) []string {
	return slices.DeleteFunc(requests, func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

func (h *hub) bodies(number int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, c := range h.comments {
		if c.number == number {
			out = append(out, fmt.Sprint(c.user["login"])+": "+c.body)
		}
	}
	return out
}

func TestOneCommentIsKept(t *testing.T) {
	h := newHub(t)
	h.add(2)
	h.change(func(time.Time) {
		h.addComment(1, ada, string(marker)+"\nan imitation")
		for range 240 { // ours will be on the third page
			h.addComment(1, ada, "chatter")
		}
	})
	f := h.forge(t)
	want := func(step string, number, most int, own ...string) {
		t.Helper()
		got := slices.DeleteFunc(h.bodies(number), func(s string) bool { return strings.HasPrefix(s, "ada: ") })
		for i := range own {
			own[i] = "poolwright-bot: " + own[i]
		}
		if made := writes(h.counted()); !slices.Equal(got, own) || len(made) != most {
			t.Fatalf("%s: own comments %q, want %q; wrote %q", step, got, own, made)
		}
	}
	first := string(marker) + "\nfirst"
	post(t, f, 1, forge.Comment{Marker: marker, Body: "first", EditOnly: true})
	want("editing only what is there", 1, 0)
	if posted := post(t, f, 1, forge.Comment{Marker: marker, Body: "first"}); !posted.Written || !strings.Contains(posted.URL, "#issuecomment-") {
		t.Errorf("got %+v", posted)
	}
	want("the first", 1, 1, first)
	for range 3 {
		post(t, f, 1, forge.Comment{Marker: marker, Body: "first"})
	}
	want("the same", 1, 0, first)
	post(t, h.forge(t), 1, forge.Comment{Marker: marker, Body: "second"})
	want("another process", 1, 1, string(marker)+"\nsecond")
	h.change(func(time.Time) { h.comments[len(h.comments)-1].body = string(marker) + "\r\nsecond\r\n" })
	post(t, f, 1, forge.Comment{Marker: marker, Body: "second"})
	want("other line ends", 1, 0, string(marker)+"\r\nsecond\r\n")
	h.change(func(time.Time) { h.comments[len(h.comments)-1].body = string(marker) + "\nall is well, merge!" })
	post(t, f, 1, forge.Comment{Marker: marker, Body: "second"})
	want("a person edited it", 1, 1, string(marker)+"\nsecond")
	h.change(func(time.Time) { h.comments = h.comments[:len(h.comments)-1] })
	post(t, f, 1, forge.Comment{Marker: marker, Body: "second"})
	want("a person deleted it", 1, 2, string(marker)+"\nsecond") // an edit that finds nothing, then a new one
	h.change(func(time.Time) {
		h.addComment(1, h.me, string(marker)+"\na race")
		h.addComment(1, h.me, "something else of ours")
	})
	post(t, f, 1, forge.Comment{Marker: marker, Body: "second"})
	want("a race left two", 1, 1, string(marker)+"\nsecond", "something else of ours")
	post(t, f, 1, forge.Comment{Marker: forge.NewMarker("plan", "team/nodes", "one-more"), Body: "x"})
	want("another cluster", 1, 1, string(marker)+"\nsecond", "something else of ours", string(forge.NewMarker("plan", "team/nodes", "one-more"))+"\nx")
}

func TestACommentThatTheListDoesNotShowYetIsNotMadeTwice(t *testing.T) {
	h := newHub(t)
	h.add(1)
	h.lag = 1 // lists never show anything
	f := h.forge(t)
	for _, text := range []string{"first", "second", "third"} {
		post(t, f, 1, forge.Comment{Marker: marker, Body: text})
	}
	if got := h.bodies(1); len(got) != 1 || !strings.HasSuffix(got[0], "\nthird") {
		t.Errorf("got %q", got)
	}
}

func TestTwoReplicasThatCommentAtOnceLeaveOne(t *testing.T) {
	h := newHub(t)
	h.add(1)
	raced := false
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && !raced {
			raced = true
			h.addComment(1, h.me, string(marker)+"\nof the other replica")
		}
		return false
	}
	post(t, h.forge(t), 1, forge.Comment{Marker: marker, Body: "ours"})
	if got := h.bodies(1); len(got) != 1 || !strings.HasSuffix(got[0], "\nours") {
		t.Errorf("got %q", got)
	}
}

func TestALongCommentIsCutToWhatGitHubTakes(t *testing.T) {
	h := newHub(t)
	h.add(1)
	f := h.forge(t)
	for range 2 {
		post(t, f, 1, forge.Comment{Marker: marker, Body: "<details>\n\n````diff\n" + strings.Repeat("+ ümlaut 😀\n", 20_000) + "````\n</details>"})
	}
	got := h.bodies(1)
	if len(got) != 1 || !strings.Contains(got[0], "````\n\n</details>\n\n_The rest is left out") || len(writes(h.counted())) != 1 {
		t.Errorf("%d comments", len(got))
	}
}

func TestATailIsReplacedAndWhatWasReviewedStays(t *testing.T) {
	h := newHub(t)
	h.add(1)
	f := h.forge(t)
	const mark = "\n\n<!-- poolwright:tail -->\n"
	reviewed := "poolwright-bot: " + string(marker) + "\n### 4 nodes replaced ✓"
	steps := []struct {
		name   string
		by     forge.Forge
		c      forge.Comment
		want   string
		writes int
	}{
		{"the plan", f, forge.Comment{Body: "### 4 nodes replaced ✓"}, reviewed, 1},
		{"a tail", f, forge.Comment{Footer: "applied"}, reviewed + mark + "applied", 1},
		{"the same", f, forge.Comment{Footer: "applied\n"}, reviewed + mark + "applied", 0},
		{"another process's tail", h.forge(t), forge.Comment{Footer: "rolled out", EditOnly: true}, reviewed + mark + "rolled out", 1},
		{"no tail", f, forge.Comment{}, reviewed, 1},
		{"no tail again", f, forge.Comment{}, reviewed, 0},
	}
	for _, s := range steps {
		s.c.Marker = marker
		post(t, s.by, 1, s.c)
		if got, made := h.bodies(1), writes(h.counted()); !slices.Equal(got, []string{s.want}) || len(made) != s.writes {
			t.Errorf("%s: got %q, want %q; wrote %q", s.name, got, s.want, made)
		}
	}
	long := strings.Repeat("+ ümlaut 😀\n", 20_000)
	post(t, f, 1, forge.Comment{Marker: marker, Body: long, Footer: "applied"})
	if got := h.bodies(1); len(got) != 1 || !strings.HasSuffix(got[0], "limit._"+mark+"applied") {
		t.Errorf("the cut one ends with %q", got[0][max(0, len(got[0])-200):])
	}
}

func TestAStatusIsWrittenOnlyWhenItChanges(t *testing.T) {
	h := newHub(t)
	f := h.forge(t)
	status := forge.Status{Context: "poolwright/plan (one)", State: forge.Pending, Description: "planning", URL: "https://example.org/1"}
	set := func(f forge.Forge, s forge.Status) {
		t.Helper()
		if err := f.Status(t.Context(), sha(1), s); err != nil {
			t.Fatal(err)
		}
	}
	set(f, status)
	h.counted()
	set(f, status)
	if got := h.counted(); len(got) != 0 {
		t.Errorf("what is known cost %q", got)
	}
	set(h.forge(t), status)
	long := forge.Status{Context: strings.Repeat("é", 300) + "1", State: forge.Errored, Description: "two\nlines " + strings.Repeat("é", 300)}
	other := long
	other.Context = strings.Repeat("é", 300) + "2"
	for _, s := range []forge.Status{long, other, long, other} {
		set(f, s)
		set(h.forge(t), s)
	}
	status.State = forge.Success
	set(f, status)
	if got := writes(h.counted()); len(got) != 3 {
		t.Errorf("wrote %q", got)
	}
	if err := f.Status(t.Context(), "main/../..", status); err == nil {
		t.Error("a path went for a commit")
	}
}

func TestWritesKeepToAPaceThatGitHubTakes(t *testing.T) {
	h := newHub(t)
	f := h.forge(t)
	ctx := shortDeadline{t.Context()}
	begin := time.Now()
	var err error
	n := 0
	for err == nil && n < 100 {
		err = f.Status(ctx, sha(n), forge.Status{Context: "c", State: forge.Pending})
		n++
	}
	var known *forge.Error
	// One more for each second that this machine took.
	most := 20 + int(time.Since(begin)/time.Second)
	if made := len(writes(h.counted())); !errors.As(err, &known) || known.Permanent() || made < 20 || made > most {
		t.Errorf("%d writes at once, %v", made, err)
	}
}

// shortDeadline never has more than half a second left, and never ends: no slow machine
// makes it.
type shortDeadline struct{ context.Context }

// Deadline implements context.Context.
func (shortDeadline) Deadline() (time.Time, bool) {
	return time.Now().Add(500 * time.Millisecond), true
}

func TestOneForgeMayBeUsedByManyAtOnce(t *testing.T) {
	h := newHub(t)
	h.add(3)
	f := h.forge(t)
	done := make(chan error)
	const callers = 4
	for range callers {
		go func() {
			_, err := f.Comment(t.Context(), 1, forge.Comment{Marker: marker, Body: "the same"})
			done <- errors.Join(err, f.Status(t.Context(), sha(1), forge.Status{Context: "c", State: forge.Success}), calls["list"](t.Context(), f))
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := h.bodies(1); len(got) != 1 || !strings.HasSuffix(got[0], "\nthe same") {
		t.Errorf("got %q", got)
	}
}
