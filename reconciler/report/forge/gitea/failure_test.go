package gitea_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// forbidding answers 403 to a path that ends so, and to all others as if
// there were nothing yet.
type forbidding string

func (end forbidding) RoundTrip(r *http.Request) (*http.Response, error) {
	c := canned{code: http.StatusOK, body: []byte(`[]`)}
	switch {
	case strings.HasSuffix(r.URL.Path, string(end)):
		c = canned{code: http.StatusForbidden, body: []byte(`{"message": "token does not have at least one of required scope(s)"}`)}
	case strings.HasSuffix(r.URL.Path, "/user"):
		c.body = []byte(`{"id": 7, "login": "bot"}`)
	}
	return c.RoundTrip(r)
}

func TestWhatIsForbiddenNamesTheScopeAndTheRight(t *testing.T) {
	tests := []struct {
		name, path, call, want string
	}{
		{"to list", "/pulls", "list", `the token needs the scope "read:repository" and its user the permission to read the repository`},
		{"to read oneself, which every user may", "/user", "comment", `the token needs the scope "read:user"`},
		{"to read comments", "/comments", "comment", `the token needs the scope "write:issue" and its user the permission to read the repository`},
		{"to set a status", "/statuses/" + strings.Repeat("a", 40), "status", `the token needs the scope "write:repository" and its user the permission to write to the repository's code`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := calls[tt.call](connect(t, forbidding(tt.path), time.Now()))
			var known *forge.Error
			if !errors.As(err, &known) || known.Code != http.StatusForbidden || known.Remedy != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}
