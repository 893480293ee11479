package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/connectionerror"
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
		{"a permission that is missing", status(http.StatusForbidden), []string{"request the permission"}},
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

func TestTheFlagsOfKubectlReachTheServer(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	kubeconfig(t, "http://127.0.0.1:1")
	r := execute(t, "reconcile", "--server="+server.URL, "--as=ann", "--as-group=ops", "--as-group=on-call", "--request-timeout=1m")
	if got.Get("Impersonate-User") != "ann" || !slices.Equal(got.Values("Impersonate-Group"), []string{"ops", "on-call"}) {
		t.Errorf("the server got %v", got)
	}
	if !strings.Contains(r.err, server.URL) || strings.Contains(r.err, `context "dev"`) {
		t.Errorf("stderr %q", r.err)
	}
}

// Requests to other hosts, such as AWS's, have errors of their own.
func TestAnErrorOfAnotherHostStaysAsItIs(t *testing.T) {
	server := connectionerror.Server{Address: "http://127.0.0.1:1"}
	client := &http.Client{Timeout: time.Minute}
	response, err := client.Get("http://127.0.0.1:2")
	if err == nil {
		t.Fatal(response.Body.Close())
	}
	if got := server.Explain(err); !errors.Is(got, err) || got.Error() != err.Error() {
		t.Errorf("it is %v", got)
	}
}

func TestAnUnknownContextIsReportedWithTheKnownOnes(t *testing.T) {
	kubeconfig(t, "http://127.0.0.1:1")
	if r := execute(t, "reconcile", "--context", "stage"); r.code != exitError || !strings.Contains(r.err, "choose one of dev, prod") {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
}
