package check

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// compare checks results by status, object, and parts of what a person reads.
func compare(t *testing.T, want []expected, got []Result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d: %+v", len(got), len(want), got)
	}
	for i, r := range got {
		w := want[i]
		if r.Status != w.status || r.Object != w.object || !strings.Contains(r.Message, w.message) || !strings.Contains(r.Remedy, w.remedy) {
			t.Errorf("result %d is %+v, want %+v", i, r, w)
		}
	}
}

func TestTheVersionOfKubernetesIsComparedWithKarpenters(t *testing.T) {
	for version, want := range map[string]expected{
		"v1.25.16-eks-1": {Failed, "", "older than 1.26", "docs/compatibility.md"},
		"v1.26.0":        {OK, "", "among 1.26 to 1.37", ""},
		"v1.36.2":        {OK, "", "", ""},
		"v1.37.9-eks-1":  {OK, "", "", ""},
		"v1.38.0":        {Warning, "", "newer than 1.37", "newer Poolwright"},
		"latest":         {Warning, "", `"latest" is no version`, ""},
	} {
		t.Run(version, func(t *testing.T) {
			compare(t, []expected{want}, fixture{version: version}.checker(t).kubernetesVersion(t.Context()))
		})
	}
}

func TestPermissionsAreThoseOfAnInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		denied []string
		want   expected
	}{
		"an administrator": {nil, expected{OK, "", "", ""}},
		"no permission to some": {[]string{"create namespaces", "patch clusterroles.rbac.authorization.k8s.io"},
			expected{Failed, "", "patch clusterroles.rbac.authorization.k8s.io", "cluster administrator"}},
		"no permission to Syncs":          {[]string{"create syncs.poolwright.dev in " + home}, expected{Failed, "", "you may not: create syncs.poolwright.dev in " + home, ""}},
		"no permission to escalate":       {[]string{"escalate clusterroles.rbac.authorization.k8s.io"}, expected{Warning, "", "not escalate ClusterRoles", ""}},
		"a permission that is not needed": {[]string{"delete namespaces"}, expected{OK, "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []expected{c.want}, fixture{denied: c.denied, pre: true}.checker(t).permissions(t.Context()))
		})
	}
}

func TestASecondInstallationIsRefused(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "poolwright-controller"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "gpu", Name: "poolwright"}}}
	compare(t, []expected{{OK, "", "no other", ""}}, fixture{}.checker(t).otherInstallation(t.Context()))
	compare(t, []expected{{Failed, "", "in namespace gpu already", "-n gpu"}}, fixture{objects: []client.Object{binding}}.checker(t).otherInstallation(t.Context()))
}

func TestNothingElseIsCheckedWhereTheAPIServerDoesNotRespond(t *testing.T) {
	for _, pre := range []bool{true, false} {
		got := Run(t.Context(), fixture{pre: pre}.checker(t).Request)
		if got.Count(Failed) != 1 || got.Results[0].Status != Failed || !strings.Contains(got.Results[0].Message, "connection refused") {
			t.Errorf("the first result is %+v", got.Results[0])
		}
		if got.Count(Skipped) != len(got.Results)-1 {
			t.Errorf("some were made: %+v", got.Results)
		}
	}
}

func TestEachCheckIsReportedUnderItsName(t *testing.T) {
	for _, c := range []struct {
		pre  bool
		want []string
	}{
		{true, []string{"api-server", "kubernetes-version", "permissions", "installation", "system-nodes", "karpenter", "flux", "argo-cd", "cluster-autoscaler", "nvidia-plugins"}},
		{false, []string{"api-server", "kubernetes-version", "crds", "controller", "controller-version", "former-names", "system-nodes", "leader", "engine", "aws", "node-classes", "syncs", "pull-requests", "device-plugins", "karpenter", "flux", "argo-cd", "cluster-autoscaler", "nvidia-plugins"}},
	} {
		report := Run(t.Context(), fixture{version: "v1.36.0", pre: c.pre}.checker(t).Request)
		var names []string
		for _, r := range report.Results {
			names = append(names, r.Name)
			if r.Message == "" || r.Status == Failed && r.Remedy == "" {
				t.Errorf("%s has no message, or failed without a remedy: %+v", r.Name, r)
			}
		}
		if got := slices.Compact(names); !slices.Equal(got, c.want) {
			t.Errorf("checks are %v", got)
		}
	}
}

func TestWhatCannotBeReadIsNoSuccess(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "", errors.New("no permissions"))
	for name, c := range map[string]struct {
		fails error
		want  Status
	}{
		"a permission that is missing": {forbidden, Skipped},
		"a server that is broken":      {errors.New("internal error"), Failed},
		"a server that is too slow":    {context.DeadlineExceeded, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pre := range []bool{true, false} {
				f := fixture{version: "v1.36.0", fails: c.fails, pre: pre}
				for _, r := range Run(t.Context(), f.checker(t).Request).Results {
					lists := slices.Contains([]string{"system-nodes", "karpenter", "cluster-autoscaler", "nvidia-plugins", "engine", "aws", "node-classes", "syncs", "pull-requests", "device-plugins"}, r.Name)
					if lists && r.Status != c.want {
						t.Errorf("%s is %+v", r.Name, r)
					}
				}
			}
		})
	}
}

func TestACheckHasItsTime(t *testing.T) {
	c := fixture{version: "v1.36.0"}.checker(t)
	c.Timeout = time.Millisecond
	got := c.bounded(t.Context(), NamedCheck{"slow", func(ctx context.Context) []Result {
		<-ctx.Done()
		return c.unreadable(ctx.Err())
	}})
	compare(t, []expected{{Failed, "", "no response within 1ms", "--timeout"}}, got)
}

func TestNoSecretIsInAResult(t *testing.T) {
	req := fixture{version: "v1.36.0"}.checker(t).Request
	req.ServerVersion = func(context.Context) (string, error) {
		return "", errors.New(`Get "https://admin:hunter2@eks.example.com/version": bearer abcdefgh12345678` + "\x1b[31m")
	}
	got := Run(t.Context(), req).Results[0]
	if strings.Contains(got.Message, "hunter2") || strings.Contains(got.Message, "abcdefgh") || strings.Contains(got.Message, "\x1b") {
		t.Errorf("the message is %q", got.Message)
	}
}

func TestConnectReadsTheVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			w.Write([]byte(`{"gitVersion":"v1.36.2"}`))
		}
	}))
	defer server.Close()
	req, err := Connect(&rest.Config{Host: server.URL}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := req.ServerVersion(t.Context()); err != nil || got != "v1.36.2" {
		t.Errorf("it is %q, %v", got, err)
	}
}
