package preview

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
)

// twoPools are forecasttest.Declared with a second pool, "cpu", whose one node drifted. Karpenter
// has not looked yet at what the class of the first one is now.
func twoPools(t *testing.T) []client.Object {
	t.Helper()
	objects := forecasttest.Declared(t)
	class, _ := objects[1].(*awsv1.EC2NodeClass)
	class.StatusConditions().SetTrue("Ready")
	pool, _ := objects[2].DeepCopyObject().(*karpv1.NodePool)
	fine := class.DeepCopy()
	claim, _ := objects[3].DeepCopyObject().(*karpv1.NodeClaim)
	node, _ := objects[4].DeepCopyObject().(client.Object)
	class.Generation = 2
	pool.Name, fine.Name, claim.Name = "cpu", "cpu", "cpu-1"
	pool.Spec.Template.Spec.NodeClassRef.Name = "cpu"
	claim.Labels[karpv1.NodePoolLabelKey] = "cpu"
	claim.Annotations[karpv1.NodePoolHashAnnotationKey] = "old"
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///eu-west-1a/i-9", "node-9"
	node.SetName("node-9")
	return append(objects, pool, fine, claim, node)
}

func TestTheNodesThatAMergeLeavesStale(t *testing.T) {
	rolling := func(kind, name string) v1alpha1.PullRequestStatus {
		return v1alpha1.PullRequestStatus{Number: 1, Phase: v1alpha1.PullRequestRollingOut, Reviewed: &v1alpha1.ReviewedDisruption{Objects: []v1alpha1.ReviewedObject{{Kind: kind, Name: name, Hash: "1"}}}}
	}
	done := rolling("NodePool", "gpu")
	done.Phase = v1alpha1.PullRequestDone
	ended := rolling("NodePool", "gpu")
	ended.RolledOutTime = new(metav1.Now())
	beside := rolling("NodeOverlay", "any")
	beside.Reviewed = &v1alpha1.ReviewedDisruption{Pools: []v1alpha1.ReviewedPool{{Name: "gpu"}}}
	blind := rolling("NodeOverlay", "any")
	blind.Reviewed = nil
	open := rolling("EC2NodeClass", "gpu")
	open.Phase = v1alpha1.PullRequestPlanned
	warning, drifted := "EC2NodeClass gpu: Karpenter has not reconciled", []string{"cpu-1 NodePoolDrifted"}
	tests := map[string]struct {
		edit  func([]client.Object) []client.Object
		items []v1alpha1.PullRequestStatus
		want  []string
		err   string
	}{
		"are reported beside the warning about the pool that it touches": {nil, []v1alpha1.PullRequestStatus{rolling("NodePool", "gpu")}, drifted, warning},
		"are uncertain where it touches the class":                       {nil, []v1alpha1.PullRequestStatus{rolling("EC2NodeClass", "gpu")}, drifted, warning},
		"are uncertain where the review named the pool":                  {nil, []v1alpha1.PullRequestStatus{beside}, drifted, warning},
		"are uncertain where it is unknown what it touches":              {nil, []v1alpha1.PullRequestStatus{blind}, drifted, warning},
		"are uncertain where another, which may be merged by now, does":  {nil, []v1alpha1.PullRequestStatus{rolling("NodePool", "cpu"), open}, drifted, warning},
		"are uncertain where the status does not have a roll-out yet":    {nil, []v1alpha1.PullRequestStatus{done}, drifted, warning},
		"are known where only a roll-out that is over touched the pool":  {nil, []v1alpha1.PullRequestStatus{rolling("NodePool", "cpu"), done, ended}, drifted, ""},
		"are uncertain although none is known": {
			func(all []client.Object) []client.Object { return all[:5] }, []v1alpha1.PullRequestStatus{rolling("NodePool", "gpu")}, nil, warning,
		},
		"are unknown without a Cluster": {
			func(all []client.Object) []client.Object { return all[1:] }, []v1alpha1.PullRequestStatus{rolling("NodePool", "cpu")}, nil, "no Cluster declares their region",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			objects := twoPools(t)
			if tt.edit != nil {
				objects = tt.edit(objects)
			}
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "poolwright"}}
			sync.Status.PullRequests = &v1alpha1.PullRequestsStatus{Items: tt.items}
			live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(append(objects, sync)...).Build()
			r := &Planner{Sync: sync, Live: live, Cluster: firstCluster(live), Drifted: func(ctx context.Context, spec v1alpha1.ClusterSpec, snapshot provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
				settings := engine.DefaultSettings()
				settings.Cluster, settings.Region, settings.Account = spec.Name, spec.Region, spec.Account
				return simulate.Drifted(engine.Offline(ctx, settings), snapshot)
			}}
			replacements, err := r.PendingReplacement(t.Context(), time.Now())
			var is []string
			for _, n := range replacements.Pending {
				is = append(is, n.NodeClaim+" "+n.Reason)
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(err); tt.err == "" && err != nil || !strings.Contains(text, tt.err) {
				t.Errorf("the doubt is %v, not %q", err, tt.err)
			}
		})
	}
}
