package aws

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestTheVersionIsCompared(t *testing.T) {
	l := newLife(t, versions{}, func(c *sandbox.Config) { c.Cluster.Version, c.Cluster.Endpoint = "1.33", "https://127.0.0.1:6443" },
		v1alpha1.ClusterSpec{Version: "1.33"})
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("%v differ", bad)
	}
	l.asks(map[string]int{"DescribeCluster": 1})
	l.denied("eks", "DescribeCluster")
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Version = "1.34" })
	if diff := cmp.Diff([]string{"sandbox"}, l.differences()); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if how := l.wanted()[0].CompareOnly; !strings.Contains(how, "where the cluster is newer, change spec.version, and where it is older, let the tool") {
		t.Errorf("the hint does not tell an older cluster from a newer one: %s", how)
	}
	if seen := l.see(l.wanted()[0]); len(seen.notes) > 0 {
		t.Errorf("notes %q", seen.notes)
	}
}

func TestAControlPlaneThatIsNotReadyIsNoted(t *testing.T) {
	l := newLife(t, versions{}, nil, v1alpha1.ClusterSpec{Version: "1.33"}) // without an endpoint it is still being created
	if diff := cmp.Diff([]string{"the control plane is CREATING"}, l.see(l.wanted()[0]).notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestWordsFromARepositoryStayOneWordInAShell(t *testing.T) {
	for in, want := range map[string]string{
		"v1.19.0-eksbuild.1": "v1.19.0-eksbuild.1",
		"":                   "''",
		"a b":                "'a b'",
		"$(reboot)":          "'$(reboot)'",
		"a'; reboot; '":      `'a'\''; reboot; '\'''`,
		"a\nb":               "'a\nb'",
		"`x`":                "'`x`'",
	} {
		if got := quoted(in); got != want {
			t.Errorf("%q is quoted as %s, not %s", in, got, want)
		}
	}
}
