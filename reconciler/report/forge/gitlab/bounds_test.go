package gitlab

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

const mark = forge.Marker("<!-- m -->")

var (
	us   = server.User{ID: 7, Name: "bot"}
	them = server.User{ID: 8, Name: "eve"}
)

// connected is a forge with open merge requests, and its server.
func connected(t *testing.T, open int) (*Forge, *server.Server) {
	t.Helper()
	s := server.New("platform/nodes", time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), map[string]server.User{"token": us})
	s.Open(open, them)
	return connect(t, s), s
}

func connect(t *testing.T, to http.Handler) *Forge {
	t.Helper()
	listening := httptest.NewServer(to)
	t.Cleanup(listening.Close)
	f, err := New(Config{Address: listening.URL, Project: "platform/nodes", Token: "token", Now: time.Now, Transport: short{http.DefaultTransport}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// short reads responses up to a limit that a test reaches soon.
type short struct{ http.RoundTripper }

const shortBytes = 256 << 10

func (s short) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &shortBody{response.Body, shortBytes}
	}
	return response, err
}

type shortBody struct {
	io.ReadCloser
	remaining int
}

func (b *shortBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.remaining -= n; b.remaining < 0 {
		return 0, rest.ErrTooLong
	}
	return n, err
}

// long is a text that the server writes with six bytes a character.
var long = strings.Repeat("<", 8_000)

func TestLongDescriptionsHideNoMergeRequest(t *testing.T) {
	f, s := connected(t, 102)
	for i := range 16 { // three times what is read of a response
		s.MergeRequests[10+i].Description = long
	}
	listing, err := f.PullRequests(t.Context(), forge.Listing{})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []int
	for i, p := range listing.Open {
		got, want = append(got, p.Number), append(want, i+1)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 102 {
		t.Errorf("%d are listed: %s", len(got), diff)
	}
}

func TestNothingIsKeptOfNotesThatAreNotOurs(t *testing.T) {
	f, s := connected(t, 1)
	for range 16 {
		s.AddNote(1, them, long)
	}
	s.AddNote(1, them, string(mark)+"\nan imitation")
	s.AddNote(1, us, "another text")
	s.AddNote(1, us, string(mark)+"\nours")
	got, err := thread{f, us.ID, 1, mark}.All(t.Context())
	if err != nil || len(got) != 1 || got[0].Body != string(mark)+"\nours" || !got[0].Mine {
		t.Errorf("%d notes are kept, %v", len(got), err)
	}
	for range 80 { // 9 MB
		s.AddNote(1, us, string(mark)+"\n"+strings.Repeat("€", 38_000))
	}
	if _, err := (thread{f, us.ID, 1, mark}).All(t.Context()); err == nil {
		t.Error("more than 8 MiB of our own are kept")
	}
}

func TestAListWithoutAnEndIsAnError(t *testing.T) {
	f := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := strconv.Atoi(r.URL.Query().Get("page"))
		if err != nil {
			t.Errorf("a request without a page: %s", r.URL)
		}
		w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
		_, _ = w.Write([]byte(`[]`))
	}))
	if err := f.Status(t.Context(), strings.Repeat("a", 40), forge.Status{Context: "c", State: forge.Success}); err == nil {
		t.Error("a status was set on the ground of a part of the list")
	}
	if _, err := (thread{f, us.ID, 1, mark}).All(t.Context()); err == nil {
		t.Error("a part of the notes was taken for all")
	}
}

func TestMergeRequestsThatAreBeingMergedAreListed(t *testing.T) {
	f, s := connected(t, 3)
	s.MergeRequests[1].State = "locked"
	listing, err := f.PullRequests(t.Context(), forge.Listing{})
	if err != nil || len(listing.Open) != 3 || listing.Open[1].Number != 2 {
		t.Errorf("got %+v, %v", listing.Open, err)
	}
}

func TestAMergeWithoutItsTimeIsTakenForThatOfTheLastChange(t *testing.T) {
	f, s := connected(t, 2)
	s.MergeRequests[0].State, s.MergeRequests[0].Updated = "merged", time.Now()
	listing, err := f.PullRequests(t.Context(), forge.Listing{})
	if err != nil || len(listing.Open) != 1 || len(listing.Merged) != 1 || listing.Merged[0].Merged.IsZero() {
		t.Errorf("got %+v, %v", listing, err)
	}
}

func TestNoTitleIsAReferenceOfGitLab(t *testing.T) {
	for title, want := range map[string]string{
		`~bug ~"a b" %1.2 $12 &7 ABC-1`: "&#126;|bug &#126;|&#34;a b&#34; &#037;|1&#046;2 &#036;|12 &amp;|7 ABC&#045;|1",
		"~%1 pre-commit":                "&#126;|&#037;|1 pre&#045;commit",
	} {
		got := inert(forge.PlainText(title, 100))
		if got != strings.ReplaceAll(want, "|", breaker) {
			t.Errorf("%s: got %q", title, got)
		}
		if again := inert(got); again != got {
			t.Errorf("%s: written twice it is %q", title, again)
		}
	}
}

func TestAStatusCountsWhereItsPipelineIs(t *testing.T) {
	at := func(id, pipeline int64, ref string) commitStatus {
		return commitStatus{ID: id, PipelineID: pipeline, Ref: ref, Status: strconv.FormatInt(id, 10)}
	}
	for _, tt := range []struct {
		name   string
		target pipeline
		has    []commitStatus
		want   string
	}{
		{"the newest of the pipeline", pipeline{ID: 5, Ref: "b"}, []commitStatus{at(1, 5, "b"), at(3, 5, "b"), at(2, 5, "b")}, "3"},
		{"not that of another", pipeline{ID: 5, Ref: "b"}, []commitStatus{at(1, 4, "b")}, ""},
		{"by the reference, of a version that leaves the pipeline out", pipeline{ID: 5, Ref: "b"}, []commitStatus{at(1, 0, "b"), at(2, 0, "c")}, "1"},
		{"by the reference, where pipelines cannot be read", pipeline{Ref: "b"}, []commitStatus{at(1, 4, "b"), at(2, 5, "c")}, "1"},
		{"any, where the reference is not known", pipeline{}, []commitStatus{at(1, 4, "b"), at(2, 5, "c")}, "2"},
	} {
		if got := newestIn(tt.target, tt.has); got.state != tt.want {
			t.Errorf("%s: got %q", tt.name, got.state)
		}
	}
}
