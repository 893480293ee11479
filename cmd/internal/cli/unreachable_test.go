package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubeconfig writes one with two contexts for a server.
func kubeconfig(t *testing.T, server string) {
	t.Helper()
	withoutCluster(t)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: dev
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: not-a-token}}]
contexts: [{name: dev, context: {cluster: c, user: u}}, {name: prod, context: {cluster: c, user: u}}]
`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

func TestAServerThatCannotBeReachedIsNamedWithTheRemedy(t *testing.T) {
	status := func(code int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	for _, test := range []struct {
		name, server string
		want         []string
	}{
		{"nothing listens", "http://" + closed.Addr().String(), []string{"connection refused", "check that the API server runs"}},
		{"another cluster's CA", untrusted.URL, []string{"certificate", "aws eks update-kubeconfig"}},
		{"a host without an address", "http://nothing.invalid", []string{"the host nothing.invalid has no address", "VPN"}},
		{"credentials that have expired", status(http.StatusUnauthorized), []string{"does not accept the credentials", "aws sso login"}},
		{"a right that is missing", status(http.StatusForbidden), []string{"request the right"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			kubeconfig(t, test.server)
			for _, command := range []string{"reconcile", "plan"} {
				r := execute(t, command)
				if r.code != exitError {
					t.Errorf("exit %d", r.code)
				}
				for _, want := range append(test.want, test.server, `context "dev"`) {
					if !strings.Contains(r.err, want) {
						t.Errorf("%s: stderr %q lacks %q", command, r.err, want)
					}
				}
				if strings.Contains(r.err, "server groups") || strings.Contains(r.err, "not-a-token") {
					t.Errorf("%s: stderr %q", command, r.err)
				}
			}
		})
	}
}

// Requests to other hosts, such as AWS's, have errors of their own.
func TestAnErrorOfAnotherHostStaysAsItIs(t *testing.T) {
	conn := &connection{server: "http://127.0.0.1:1"}
	client := &http.Client{Timeout: time.Minute}
	response, err := client.Get("http://127.0.0.1:2")
	if err == nil {
		t.Fatal(response.Body.Close())
	}
	if got := conn.explain(err); !errors.Is(got, err) || got.Error() != err.Error() {
		t.Errorf("it is %v", got)
	}
}

func TestAnUnknownContextIsReportedWithTheKnownOnes(t *testing.T) {
	kubeconfig(t, "http://127.0.0.1:1")
	if r := execute(t, "reconcile", "--context", "stage"); r.code != exitError || !strings.Contains(r.err, "choose one of dev, prod") {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
}

func TestCompletion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/namespaces/gitops/syncs"):
			fmt.Fprint(w, `{"kind":"SyncList","apiVersion":"poolwright.dev/v1alpha1","items":[{"metadata":{"name":"dev"}},{"metadata":{"name":"nodes"}}]}`)
		case r.URL.Path == "/apis/poolwright.dev/v1alpha1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"poolwright.dev/v1alpha1","resources":[{"name":"syncs","kind":"Sync","namespaced":true,"verbs":["list"]}]}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"poolwright.dev","versions":[{"groupVersion":"poolwright.dev/v1alpha1","version":"v1alpha1"}]}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig(t, server.URL)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the formats of lint":         {[]string{"lint", "-o", ""}, "text\njson\nsarif\ngithub\n:4\n"},
		"the formats of plan":         {[]string{"plan", "-o", ""}, "text\njson\nmarkdown\n:4\n"},
		"the formats of cost":         {[]string{"cost", "-o", ""}, "text\njson\nmarkdown\n:4\n"},
		"the formats of convert":      {[]string{"convert", "-o", ""}, "text\njson\n:4\n"},
		"the formats of bootstrap":    {[]string{"bootstrap", "-o", ""}, "text\njson\nmarkdown\n:4\n"},
		"the formats of version":      {[]string{"version", "-o", ""}, "text\njson\n:4\n"},
		"the contexts":                {[]string{"plan", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of bootstrap":   {[]string{"bootstrap", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of uninstall":   {[]string{"uninstall", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of run":         {[]string{"run", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of reconcile":   {[]string{"reconcile", "--context", ""}, "dev\nprod\n:4\n"},
		"the Syncs of a namespace":    {[]string{"reconcile", "-n", "gitops", ""}, "dev\nnodes\n:4\n"},
		"nothing after one Sync":      {[]string{"suspend", "-n", "gitops", "dev", ""}, ":4\n"},
		"no Sync that cannot be read": {[]string{"resume", "-n", "other", ""}, ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := execute(t, append([]string{"__complete"}, test.args...)...); r.out != test.want {
				t.Errorf("got %q, stderr %q", r.out, r.err)
			}
		})
	}
}
