package forgetest

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// loss is a transport by which the response of one write is lost after the forge has carried the write out.
type loss struct{ next atomic.Bool }

// RoundTrip implements http.RoundTripper.
func (l *loss) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/access_tokens") || !l.next.CompareAndSwap(true, false) {
		return response, err
	}
	return nil, errors.Join(errors.New("the connection was closed"), response.Body.Close())
}

// fails has the response of what a call writes be lost.
func (l *loss) fails(t *testing.T, call func() error) {
	t.Helper()
	l.next.Store(true)
	if err := call(); err == nil || l.next.Load() {
		t.Fatalf("no response was lost: %v", err)
	}
}

// lostResponses writes statuses and comments whose responses are lost, again by the same process and by another.
func lostResponses(t *testing.T, s Server) {
	l := &loss{}
	f := s.Connect(l)
	sha := list(t, f, forge.Listing{}).Open[0].Head.SHA
	is := forge.Status{Context: "poolwright/conformance (lost)", URL: "https://example.org/1"}
	for _, step := range []struct {
		name  string
		state forge.State
		lost  bool
		// again is how many processes set it after that, the first of them that whose response was lost.
		again       int
		least, most int
	}{
		{"the first", forge.Pending, true, 2, 1, 1},
		{"its end, which some forges write in its place", forge.Success, true, 2, 0, 1},
		{"another", forge.Failure, false, 2, 1, 1},
		{"the one before, which is not written once more", forge.Success, true, 0, 1, 1},
		{"the other after it, though no response came in between", forge.Failure, false, 1, 1, 1},
	} {
		is.State, is.Description = step.state, string(step.state)
		before := s.Statuses(sha, is.Context)
		if step.lost {
			l.fails(t, func() error { return f.Status(t.Context(), sha, is) })
		}
		for _, by := range []forge.Forge{f, s.connect()}[:step.again] {
			if err := by.Status(t.Context(), sha, is); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if got := s.Statuses(sha, is.Context) - before; got < step.least || got > step.most {
			t.Errorf("%s: %d were written", step.name, got)
		}
	}
	m := forge.NewMarker("plan", "team/nodes", "lost")
	for _, body := range []string{"once", "twice"} {
		c := forge.Comment{Marker: m, Body: body}
		l.fails(t, func() error {
			_, err := f.Comment(t.Context(), s.Second, c)
			return err
		})
		post(t, f, s.Second, c)
		if got := own(s, s.Second, m); len(got) != 1 || got[0] != body {
			t.Errorf("got %q, want %q", got, body)
		}
	}
}
