package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// calls are all that a forge can be asked.
var calls = map[string]func(context.Context, forge.Forge) error{
	"list": func(ctx context.Context, f forge.Forge) error {
		_, err := f.PullRequests(ctx, forge.Listing{})
		return err
	},
	"comment": func(ctx context.Context, f forge.Forge) error {
		_, err := f.Comment(ctx, 1, forge.Comment{Marker: marker, Body: "body"})
		return err
	},
	"status": func(ctx context.Context, f forge.Forge) error {
		return f.Status(ctx, sha(1), forge.Status{Context: "c", State: forge.Success})
	},
}

func TestRefusalsNameTheRemedy(t *testing.T) {
	in := func(d time.Duration) func(now time.Time) string {
		return func(now time.Time) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	}
	tests := []struct {
		name, call string
		code       int
		message    string
		header     map[string]func(time.Time) string
		wait       time.Duration // from now
		want       string        // in the error
		permanent  bool
	}{
		{name: "a revoked token", call: "list", code: 401, message: "Bad credentials", want: "make a new one", permanent: true},
		{name: "no permission to list", call: "list", code: 403, message: "Resource not accessible by personal access token",
			header: map[string]func(time.Time) string{"X-Accepted-GitHub-Permissions": func(time.Time) string { return "pull_requests=read" }},
			want:   `"Pull requests: Read-only" is missing: give it to the App (and accept it for the installation) or to the fine-grained token; a classic token needs the scope "repo"; GitHub requires pull_requests=read`, permanent: true},
		{name: "no permission to comment", call: "comment", code: 403, message: "Resource not accessible by integration", want: `"Pull requests: Read and write"`, permanent: true},
		{name: "no permission to set a status", call: "status", code: 403, message: "Resource not accessible by integration", want: `"Commit statuses: Read and write"`, permanent: true},
		{name: "a locked conversation", call: "comment", code: 403, message: "Unable to create comment because issue is locked.", want: "unlock it", permanent: true},
		{name: "a repository that is not shown", call: "list", code: 404, message: "Not Found", want: "add ada/nodes to the repositories of the token", permanent: true},
		{name: "content that is refused", call: "comment", code: 422, message: "Validation Failed", want: "Validation Failed", permanent: true},
		{name: "an outage", call: "list", code: 502, message: "Server Error", want: "responded with status 502: Server Error"},
		{name: "the primary limit", call: "list", code: 403, message: "API rate limit exceeded for user ID 7.",
			header: map[string]func(time.Time) string{"X-RateLimit-Remaining": func(time.Time) string { return "0" }, "X-RateLimit-Reset": in(20 * time.Minute)},
			wait:   20*time.Minute + time.Second, want: "rate limit is used up until 2026-11-20T12:20:0"},
		{name: "the primary limit as it is reported today", call: "list", code: 429, message: "API rate limit exceeded",
			header: map[string]func(time.Time) string{"X-RateLimit-Remaining": func(time.Time) string { return "0" }, "X-RateLimit-Reset": in(time.Minute)}, wait: time.Minute + time.Second},
		{name: "a secondary limit with a time", call: "comment", code: 403, message: "You have exceeded a secondary rate limit.",
			header: map[string]func(time.Time) string{"Retry-After": func(time.Time) string { return "90" }, "X-RateLimit-Remaining": func(time.Time) string { return "4000" }, "X-RateLimit-Reset": in(time.Hour)}, wait: 90 * time.Second},
		{name: "a secondary limit in the message only", call: "comment", code: 403, message: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.", wait: time.Minute},
		{name: "a limit without an end", call: "status", code: 429, message: "no",
			header: map[string]func(time.Time) string{"Retry-After": func(time.Time) string { return "99999999999" }}, wait: time.Hour},
		{name: "a limit until before now", call: "list", code: 403, message: "API rate limit exceeded",
			header: map[string]func(time.Time) string{"X-RateLimit-Remaining": func(time.Time) string { return "0" }, "X-RateLimit-Reset": in(-time.Hour)}, wait: time.Second},
		{name: "maintenance", call: "list", code: 503, message: "back soon", header: map[string]func(time.Time) string{"Retry-After": func(time.Time) string { return "30" }}, wait: 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub(t)
			h.add(1)
			f := h.forge(t)
			if _, err := f.Comment(t.Context(), 1, forge.Comment{Marker: "<!-- known -->", Body: "who am I"}); err != nil {
				t.Fatal(err)
			}
			now := h.now()
			h.change(func(time.Time) {
				h.clock = now
				h.before = func(w http.ResponseWriter, r *http.Request) bool {
					for name, value := range tt.header {
						w.Header().Set(name, value(now))
					}
					refuse(w, tt.code, tt.message)
					return true
				}
			})
			h.counted()
			err := calls[tt.call](t.Context(), f)
			var known *forge.Error
			if !errors.As(err, &known) || known.Code != tt.code || known.Permanent() != tt.permanent || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "ada/nodes") {
				t.Fatalf("got %v", err)
			}
			if tt.wait == 0 {
				if !known.Until.IsZero() {
					t.Errorf("it waits until %s", known.Until)
				}
				return
			}
			if got := known.Until.Sub(now); got < tt.wait-time.Second || got > tt.wait+time.Second {
				t.Errorf("it waits %s, want %s", got, tt.wait)
			}
			if n := len(h.counted()); n != 1 {
				t.Errorf("%d requests", n)
			}
			for name, call := range calls {
				if err := call(t.Context(), f); !errors.As(err, &known) || known.Until.IsZero() || known.Operation == "" {
					t.Errorf("%s during the pause: %v", name, err)
				}
			}
			if got := h.counted(); len(got) != 0 {
				t.Errorf("during the pause it asked %q", got)
			}
			h.change(func(time.Time) { h.clock, h.before = now.Add(tt.wait+time.Second), nil })
			if err := calls["list"](t.Context(), f); err != nil {
				t.Errorf("after the pause: %v", err)
			}
		})
	}
}

func TestPausesGrowWhereGitHubNamesNoTime(t *testing.T) {
	h := newHub(t)
	f := h.forge(t)
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, http.StatusForbidden, "You have exceeded a secondary rate limit.")
		return true
	}
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		var known *forge.Error
		err := calls["list"](t.Context(), f)
		if !errors.As(err, &known) || known.Until.Sub(h.now()) != want {
			t.Fatalf("got %v, want %s", err, want)
		}
		h.change(func(time.Time) { h.clock = known.Until })
	}
}

func TestTheLastAllowedRequestIsTheLast(t *testing.T) {
	h := newHub(t)
	h.add(1)
	f := h.forge(t)
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(h.clock.Add(time.Minute).Unix(), 10))
		return false
	}
	err := calls["list"](t.Context(), f) // two requests
	var known *forge.Error
	if !errors.As(err, &known) || known.Until.IsZero() || len(h.counted()) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoResponseOfGitHubIsAnErrorWithoutTheToken(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was asked, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	tests := map[string]http.HandlerFunc{
		"another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		},
		"itself for ever":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"a web page":        func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("<html>Log in</html>")) },
		"a broken end":      func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`[{"number": 1`)) },
		"another shape":     func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`{"message": 3}`)) },
		"numbers for names": func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`[{"number": "1"}]`)) },
		"no number":         func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`[{"title": "x"}, null]`)) },
		"the token itself": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, http.StatusBadRequest, "you sent "+r.Header.Get("Authorization")+" to https://x:"+token+"@example.org?access_token="+token)
		},
		"no end": func(w http.ResponseWriter, r *http.Request) {
			page, _ := strconv.Atoi(r.URL.Query().Get("page"))
			w.Header().Set("Link", fmt.Sprintf(`<http://%s/x?page=%d>; rel="next"`, r.Host, page+1))
			_, _ = w.Write([]byte(`[]`))
		},
		"more than is bearable": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`[{"title": "`))
			spaces := []byte(strings.Repeat(" ", 1<<20))
			for range 64 {
				_, _ = w.Write(spaces)
			}
		},
		"a hang-up": func(w http.ResponseWriter, r *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = connection.Close()
			}
		},
	}
	for name, response := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(response)
			defer server.Close()
			f, err := github.New(github.Config{Address: server.URL, Repository: "ada/nodes", Token: token, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.PullRequests(t.Context(), forge.Listing{})
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), token) || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestARenamedRepositoryIsStillRead(t *testing.T) {
	h := newHub(t)
	h.add(1)
	f, err := github.New(github.Config{Address: h.server.URL, Repository: "ada/old", Token: token, Now: h.now})
	if err != nil {
		t.Fatal(err)
	}
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if path, ok := strings.CutPrefix(r.URL.RequestURI(), "/repos/ada/old/"); ok {
			http.Redirect(w, r, "/repos/ada/nodes/"+path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	if got := list(t, f, forge.Listing{}); len(got.Open) != 1 {
		t.Errorf("got %+v", got)
	}
	if err := calls["status"](t.Context(), f); err == nil || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("a write was sent on: %v", err)
	}
}

func TestAConnectionThatCannotBeRightIsRefusedAtOnce(t *testing.T) {
	tests := map[string]github.Config{
		"no credential":      {Repository: "ada/nodes"},
		"two credentials":    {Repository: "ada/nodes", Token: token, App: &github.App{}},
		"plain http":         {Address: "http://github.example.org", Repository: "ada/nodes", Token: token},
		"a password":         {Address: "https://x:" + token + "@github.example.org", Repository: "ada/nodes", Token: token},
		"another scheme":     {Address: "ssh://github.example.org", Repository: "ada/nodes", Token: token},
		"no repository":      {Token: token},
		"a path":             {Repository: "ada/../nodes", Token: token},
		"dots":               {Repository: "ada/..", Token: token},
		"an App without key": {Repository: "ada/nodes", App: &github.App{ID: 1, Installation: 2}},
		"a key that is none": {Repository: "ada/nodes", App: &github.App{ID: 1, Installation: 2, Key: []byte(token)}},
	}
	for name, config := range tests {
		config.Now = time.Now
		if _, err := github.New(config); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestACancelledCallIsReportedAsCancelled(t *testing.T) {
	h := newHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls {
		if err := call(ctx, h.forge(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
