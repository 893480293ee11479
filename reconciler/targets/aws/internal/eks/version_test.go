package eks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

func TestTheVersionIsCompared(t *testing.T) {
	l := kindtest.NewFixture(t, Version{}, func(c *sandboxaws.Config) { c.Cluster.Version, c.Cluster.Endpoint = "1.33", "https://127.0.0.1:6443" },
		v1alpha1.ClusterSpec{Version: "1.33"})
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("%v differ", bad)
	}
	l.Requests(map[string]int{"DescribeCluster": 1})
	l.Deny("eks", "DescribeCluster")
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Version = "1.34" })
	if diff := cmp.Diff([]string{"sandbox"}, l.Differences()); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if how := l.Items()[0].ReadOnly; !strings.Contains(how, "where the cluster is newer, change spec.version, and where it is older, let the tool") {
		t.Errorf("the hint does not tell an older cluster from a newer one: %s", how)
	}
	if observed := l.ReadOne(l.Items()[0]); len(observed.Notes) > 0 {
		t.Errorf("notes %q", observed.Notes)
	}
}

func TestAControlPlaneThatIsNotReadyIsNoted(t *testing.T) {
	l := kindtest.NewFixture(t, Version{}, nil, v1alpha1.ClusterSpec{Version: "1.33"}) // without an endpoint it is still being created
	if diff := cmp.Diff([]string{"the control plane is CREATING"}, kindtest.Texts(l.ReadOne(l.Items()[0]).Notes)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
