package gitlab_test

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

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitlab"
)

// calls are one of each method of a forge.
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
		return f.Status(ctx, fmt.Sprintf("%040x", 1), forge.Status{Context: "c", State: forge.Success})
	},
}

func TestRefusalsNameTheRemedy(t *testing.T) {
	in := func(d time.Duration) func(time.Time) string {
		return func(now time.Time) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	}
	text := func(s string) func(time.Time) string { return func(time.Time) string { return s } }
	tests := []struct {
		name, call string
		code       int
		message    any
		header     map[string]func(time.Time) string
		wait       time.Duration // from now
		want       string        // in the error
		permanent  bool
	}{
		{name: "a revoked token", call: "list", code: 401, message: "401 Unauthorized", want: "make a new one", permanent: true},
		{name: "a scope that is missing", call: "list", code: 403, message: "403 Forbidden", want: `the token needs the scope "api" and its user in ` + project + " the role Reporter", permanent: true},
		{name: "no permission to comment", call: "comment", code: 403, message: "403 Forbidden", want: "the role Reporter", permanent: true},
		{name: "no permission to set a status", call: "status", code: 403, message: "403 Forbidden", want: "the role Developer, and for a protected branch the permission to merge or to push", permanent: true},
		{name: "a project that is not shown", call: "list", code: 404, message: "404 Project Not Found", want: "make the user a member of " + project, permanent: true},
		{name: "content that is refused", call: "comment", code: 400, message: map[string]any{"note": []string{"is too long"}}, want: `"note":["is too long"]`, permanent: true},
		{name: "another update of the same status", call: "status", code: 409, message: "Another update to this commit status is in progress", want: "in progress"},
		{name: "an outage", call: "list", code: 502, message: "502 Bad Gateway", want: "responded with status 502"},
		{name: "a limit with its end", call: "list", code: 429, message: "Retry later", wait: 20*time.Minute + time.Second, want: "rate limit is used up until 2026-11-20T12:20:0",
			header: map[string]func(time.Time) string{"RateLimit-Remaining": text("0"), "RateLimit-Reset": in(20 * time.Minute)}},
		{name: "a limit with a time to wait", call: "comment", code: 429, message: "Retry later", wait: 90 * time.Second,
			header: map[string]func(time.Time) string{"Retry-After": text("90"), "RateLimit-Reset": in(time.Hour)}},
		{name: "a limit of an endpoint, with what is left of another", call: "comment", code: 429, message: map[string]any{"error": "This endpoint has been requested too many times."}, wait: time.Minute + time.Second,
			header: map[string]func(time.Time) string{"RateLimit-Remaining": text("595"), "RateLimit-Reset": in(time.Minute)}},
		{name: "a limit without any time", call: "status", code: 429, message: "no", wait: time.Minute},
		{name: "a limit without an end", call: "status", code: 429, message: "no", wait: time.Hour,
			header: map[string]func(time.Time) string{"Retry-After": text("99999999999")}},
		{name: "maintenance", call: "list", code: 503, message: "back soon", wait: 30 * time.Second,
			header: map[string]func(time.Time) string{"Retry-After": text("30")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 1)
			f := l.forge(t)
			post(t, f, 1, forge.Comment{Body: "who am I"})
			now := l.Time()
			l.Change(func(time.Time) {
				l.Now = now
				l.Before = func(w http.ResponseWriter, _ *http.Request) bool {
					for name, value := range tt.header {
						w.Header().Set(name, value(now))
					}
					server.Refuse(w, tt.code, tt.message)
					return true
				}
			})
			l.Counted()
			err := calls[tt.call](t.Context(), f)
			var known *forge.Error
			if !errors.As(err, &known) || known.Code != tt.code || known.Permanent() != tt.permanent || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), project) {
				t.Fatalf("got %v", err)
			}
			if n := len(l.Counted()); n != 1 {
				t.Errorf("%d requests", n)
			}
			if got := known.Until.Sub(now); tt.wait != 0 && (got < tt.wait-time.Second || got > tt.wait+time.Second) || tt.wait == 0 && !known.Until.IsZero() {
				t.Errorf("it waits %s, want %s", got, tt.wait)
			}
			if tt.wait == 0 {
				return
			}
			for name, call := range calls {
				if err := call(t.Context(), f); !errors.As(err, &known) || known.Until.IsZero() {
					t.Errorf("%s during the pause: %v", name, err)
				}
			}
			if got := l.Counted(); len(got) != 0 {
				t.Errorf("during the pause it requested %q", got)
			}
		})
	}
}

func TestWhatIsNoResponseOfGitLabIsAnErrorWithoutTheToken(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host got %q", r.Header)
	}))
	defer elsewhere.Close()
	body := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) }
	}
	tests := map[string]http.HandlerFunc{
		"another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
		},
		"itself for ever":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"a web page":        body("<html>Sign in</html>"),
		"a broken end":      body(`[{"iid": 1`),
		"another shape":     body(`{"message": 3}`),
		"texts for numbers": body(`[{"iid": "x"}]`),
		"no number":         body(`[{"title": "x"}, null]`),
		"the token itself": func(w http.ResponseWriter, r *http.Request) {
			server.Refuse(w, http.StatusBadRequest, "you sent "+r.Header.Get("PRIVATE-TOKEN")+" and glpat-another0123456789xyz to https://x:"+token+"@example.org?private_token="+token)
		},
		"no end": func(w http.ResponseWriter, r *http.Request) {
			page, _ := strconv.Atoi(r.URL.Query().Get("page"))
			w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
			_, _ = w.Write([]byte(`[]`))
		},
	}
	for name, response := range tests {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(response)
			defer s.Close()
			f, err := gitlab.New(gitlab.Config{Address: s.URL, Project: project, Token: token, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			err = calls["list"](t.Context(), f)
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "glpat-") || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestARenamedProjectIsStillRead(t *testing.T) {
	l := newLab(t, 1)
	l.Change(func(time.Time) {
		l.Before = func(w http.ResponseWriter, r *http.Request) bool {
			path, renamed := strings.CutPrefix(r.URL.RequestURI(), "/api/v4/projects/platform%2Fold/")
			if renamed {
				http.Redirect(w, r, "/api/v4/projects/3/"+path, http.StatusMovedPermanently)
			}
			return renamed
		}
	})
	f, err := gitlab.New(gitlab.Config{Address: l.url, Project: "platform/old", Token: token, Now: l.Time})
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, f, forge.Listing{}); len(got.Open) != 1 {
		t.Errorf("got %+v", got)
	}
	if err := calls["status"](t.Context(), f); err == nil || !strings.Contains(err.Error(), "renamed") || len(l.Statuses) != 0 {
		t.Errorf("a write was sent on: %v", err)
	}
}

func TestAConnectionThatCannotBeRightIsRefusedAtOnce(t *testing.T) {
	const address = "https://gitlab.example.com"
	tests := map[string]gitlab.Config{
		"no token":                    {Address: address, Project: project},
		"plain http":                  {Address: "http://gitlab.example.com", Project: project, Token: token},
		"a password":                  {Address: "https://x:" + token + "@gitlab.example.com", Project: project, Token: token},
		"no project":                  {Address: address, Token: token},
		"a project without a group":   {Address: address, Project: "nodes", Token: token},
		"dots":                        {Address: address, Project: "ada/../nodes", Token: token},
		"an empty group":              {Address: address, Project: "ada//nodes", Token: token},
		"a query":                     {Address: address, Project: "ada/nodes?x", Token: token},
		"an escaped part":             {Address: address, Project: "ada%2Fnodes/x", Token: token},
		"more groups than GitLab has": {Address: address, Project: strings.Repeat("a/", 21) + "nodes", Token: token},
	}
	for name, config := range tests {
		config.Now = time.Now
		if _, err := gitlab.New(config); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestACancelledCallIsReportedAsCancelled(t *testing.T) {
	l := newLab(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls {
		if err := call(ctx, l.forge(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
