package probe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// fakeForge is a Git server and a Gitea, for who has the token.
func fakeForge(t *testing.T, accepted string) string {
	t.Helper()
	line := strings.Repeat("1", 40) + " refs/heads/main\x00agent=git/2.43\n"
	refs := fmt.Sprintf("001e# service=git-upload-pack\n0000%04x%s0000", len(line)+4, line)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if password != accepted && !strings.HasSuffix(r.Header.Get("Authorization"), " "+accepted) && accepted != "" {
			http.Error(w, "wrong token "+password+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			w.Write([]byte(refs))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/o/n.git"
}

func TestRepositoriesAreListedWithTheirOwnSecrets(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	open, private, other := fakeForge(t, ""), fakeForge(t, token), fakeForge(t, "another")
	at := func(revision string) func(*v1alpha1.Sync) {
		return func(s *v1alpha1.Sync) { s.Status.LastAttemptedRevision = revision }
	}
	for name, c := range map[string]struct {
		has  []client.Object
		want []expected
	}{
		"there is no Sync":      {nil, nil},
		"one that is open":      {[]client.Object{syncOf("dev", open)}, []expected{{check.OK, "Sync poolwright-system/dev", "main@sha1:1111111 can be read", ""}}},
		"one with a Secret":     {[]client.Object{syncOf("dev", private, withSecret), secret("git", "password")}, []expected{{check.OK, "", "can be read", ""}}},
		"one that has moved":    {[]client.Object{syncOf("dev", open, at("main@sha1:2222222222"))}, []expected{{check.OK, "", "the controller fetched main@sha1:2222222 last", ""}}},
		"a token that is wrong": {[]client.Object{syncOf("dev", other, withSecret), secret("git", "password")}, []expected{{check.Failed, "", "not authorized", "spec.source.git.secretRef"}}},
		"no Secret":             {[]client.Object{syncOf("dev", private, withSecret)}, []expected{{check.Failed, "", "Secret git", ""}}},
		"no such branch": {[]client.Object{syncOf("dev", open, func(s *v1alpha1.Sync) { s.Spec.Source.Git.Ref.Branch = "other" })},
			[]expected{{check.Failed, "", `branch "other"`, "correct spec.source.git"}}},
		"no connection": {[]client.Object{syncOf("dev", closed.URL+"/o/n.git")}, []expected{{check.Warning, "", "unreachable", "the check syncs"}}},
		"suspended":     {[]client.Object{syncOf("dev", open, func(s *v1alpha1.Sync) { s.Spec.Suspend = true })}, nil},
		"of Flux": {[]client.Object{syncOf("dev", "", func(s *v1alpha1.Sync) {
			s.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "r"}
		})}, nil},
		"in another namespace": {[]client.Object{syncOf("dev", open, func(s *v1alpha1.Sync) { s.Namespace = "other" })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, c.want, probing(t, c.has...).git(t.Context()))
		})
	}
}

func TestASyncForWhichNoTimeIsLeftIsSkipped(t *testing.T) {
	byFlux := syncOf("flux", "", func(s *v1alpha1.Sync) {
		s.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "r"}
	})
	p := probing(t, syncOf("dev", fakeForge(t, token), withPulls), secret("forge", "token"), byFlux)
	ended, end := context.WithCancel(t.Context())
	end()
	want := []expected{{check.Skipped, "Sync poolwright-system/dev", "it was not tried", "--timeout"}}
	compare(t, want, p.git(ended))
	compare(t, want, p.forges(ended))

	for name, tt := range map[string]struct {
		result check.Result
		want   expected
	}{
		"a Sync whose time ends before its server responds": {
			check.Result{Status: check.Warning, Message: "no response"},
			expected{check.Skipped, "Sync poolwright-system/dev", "not tried to its end", "--timeout"},
		},
		"a Sync that responded in its last moment": {
			check.Result{Status: check.OK, Message: "main"},
			expected{check.OK, "Sync poolwright-system/dev", "main", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			got := probing(t, syncOf("dev", fakeForge(t, token))).syncs(ctx, func(context.Context, *v1alpha1.Sync) (check.Result, bool) {
				end()
				return tt.result, true
			})
			compare(t, []expected{tt.want}, got)
		})
	}
}

func TestForgesListPullRequestsWithTheirOwnTokens(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, c := range map[string]struct {
		has  []client.Object
		want []expected
	}{
		"no pull requests":      {[]client.Object{syncOf("dev", fakeForge(t, ""))}, nil},
		"a token":               {[]client.Object{syncOf("dev", fakeForge(t, token), withPulls), secret("forge", "token")}, []expected{{check.OK, "Sync poolwright-system/dev", "0 open pull requests", ""}}},
		"a token that is wrong": {[]client.Object{syncOf("dev", fakeForge(t, "another"), withPulls), secret("forge", "token")}, []expected{{check.Failed, "", "401", "spec.pullRequests.secretRef"}}},
		"no key":                {[]client.Object{syncOf("dev", fakeForge(t, token), withPulls), secret("forge")}, []expected{{check.Failed, "", "no key token", "docs/pull-requests.md"}}},
		"no connection":         {[]client.Object{syncOf("dev", closed.URL+"/o/n.git", withPulls), secret("forge", "token")}, []expected{{check.Warning, "", "no response", "the check pull-requests"}}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, c.want, probing(t, c.has...).forges(t.Context()))
		})
	}
}

func TestSecretsThatMayNotBeReadSkipTheirSyncs(t *testing.T) {
	p := denying(probing(t, syncOf("dev", fakeForge(t, token), withSecret, withPulls), secret("git", "password"), secret("forge", "token")))
	for _, run := range []func(context.Context) []check.Result{p.git, p.forges} {
		compare(t, []expected{{check.Skipped, "Sync poolwright-system/dev", "forbidden", "administrator"}}, run(t.Context()))
	}
}
