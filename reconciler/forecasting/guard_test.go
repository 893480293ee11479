package forecasting

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// classChange is a plan that changes the EC2NodeClass of objects, of which there is one
// node.
func classChange(t *testing.T, objects []client.Object, edit func(*awsv1.EC2NodeClass)) plan.Plan {
	t.Helper()
	was, _ := objects[1].(*awsv1.EC2NodeClass)
	is := was.DeepCopy()
	edit(is)
	key := state.Key{Target: "kubernetes", Group: awsapis.Group, Kind: "EC2NodeClass", Name: "gpu"}
	return plan.Compute(state.NewSet(state.Item{Key: key, Object: content(t, is)}), state.NewSet(state.Item{Key: key, Object: content(t, was)}))
}

func userData(class *awsv1.EC2NodeClass) { class.Spec.UserData = new("echo changed") }

// review is a pull request whose reviewers were told of the plan and of no node of
// the pool gpu.
func review(phase v1alpha1.PullRequestPhase, p plan.Plan) v1alpha1.PullRequestStatus {
	reported := &v1alpha1.ReviewedDisruption{Pools: []v1alpha1.ReviewedPool{{Name: "gpu"}}}
	for _, c := range p.Changes {
		reported.Objects = append(reported.Objects, v1alpha1.ReviewedObject(c.Fingerprint()))
	}
	return v1alpha1.PullRequestStatus{Number: 12, Phase: phase, Reviewed: reported}
}

// four adds three nodes of the same kind.
func four(objects []client.Object) []client.Object {
	for _, n := range []string{"2", "3", "4"} {
		claim, _ := objects[3].DeepCopyObject().(*karpv1.NodeClaim)
		node, _ := objects[4].DeepCopyObject().(*corev1.Node)
		claim.Name, claim.Status.NodeName, claim.Status.ProviderID = "gpu-"+n, "node-"+n, "aws:///eu-west-1a/i-"+n
		node.Name, node.Spec.ProviderID = "node-"+n, claim.Status.ProviderID
		objects = append(objects, claim, node)
	}
	return objects
}

func TestTheApplyIsHeldForTheNodesThatTheLiveClusterWouldLose(t *testing.T) {
	guarded := func(most int32) *v1alpha1.Sync {
		sync := &v1alpha1.Sync{}
		sync.Spec.Guard.MaxNodesReplaced = new(most)
		return sync
	}
	protect := func(objects []client.Object) []client.Object {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "train", Annotations: map[string]string{"karpenter.sh/do-not-disrupt": "true"}}}
		pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
		return append(objects, pod)
	}
	for name, c := range map[string]struct {
		sync   *v1alpha1.Sync
		review v1alpha1.PullRequestPhase // of one whose reviewers were told of no node
		other  bool                      // and of another content
		edit   func(*awsv1.EC2NodeClass)
		live   func([]client.Object) []client.Object
		down   bool
		held   string // the reason without its token
		unread bool
	}{
		"no node may be replaced, and one would":                        {sync: guarded(0), edit: userData, held: "would replace 1 node; guard.maxNodesReplaced is 0"},
		"one may, and is":                                               {sync: guarded(1), edit: userData},
		"one that must not be disrupted now is replaced once it may be": {sync: guarded(0), edit: userData, live: protect, held: "would replace 1 node; guard.maxNodesReplaced is 0"},
		"a change that Karpenter takes for no drift":                    {sync: guarded(0), edit: func(c *awsv1.EC2NodeClass) { c.Labels = map[string]string{"team": "a"} }},
		"no guard and no review":                                        {sync: &v1alpha1.Sync{}, edit: userData, unread: true},
		"one node more than was reviewed":                               {sync: &v1alpha1.Sync{}, edit: userData, review: v1alpha1.PullRequestMerged},
		"four nodes more than were reviewed, right after the merge": {sync: &v1alpha1.Sync{}, edit: userData, review: v1alpha1.PullRequestPlanned, live: four,
			held: "would replace 4 nodes; 0 were predicted in the review of #12"},
		"four more, when the review is no longer of this":  {sync: &v1alpha1.Sync{}, edit: userData, review: v1alpha1.PullRequestDone, live: four, unread: true},
		"four more, when its merge is applied":             {sync: &v1alpha1.Sync{}, edit: userData, review: v1alpha1.PullRequestRollingOut, live: four, unread: true},
		"four more, where it is open and of another class": {sync: &v1alpha1.Sync{}, edit: userData, review: v1alpha1.PullRequestPlanned, other: true, live: four, unread: true},
		"four more, where another merge changed its class as well": {sync: &v1alpha1.Sync{}, edit: userData, review: v1alpha1.PullRequestMerged, other: true, live: four,
			held: "would replace 4 nodes; 0 were predicted in the review of #12"},
		"a cluster that cannot be read": {sync: guarded(3), edit: userData, down: true,
			held: "may replace any number of nodes, since the number cannot be predicted: connection refused"},
		"no Cluster that declares where the nodes are": {sync: guarded(3), edit: userData, live: func(o []client.Object) []client.Object { return o[1:] },
			held: "may replace any number of nodes, since the number cannot be predicted: no Cluster specifies the region of the nodes; apply an object of that kind; guard.maxNodesReplaced is 3"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := forecasttest.Live(t)
			p := classChange(t, objects, c.edit)
			if c.review != "" {
				item := review(c.review, p)
				if c.other {
					item.Reviewed.Objects = []v1alpha1.ReviewedObject{{Kind: "EC2NodeClass", Name: "gpu", Hash: "0123456789ab"}}
				}
				c.sync.Status.PullRequests = &v1alpha1.PullRequestsStatus{Items: []v1alpha1.PullRequestStatus{item}}
			}
			if c.live != nil {
				objects = c.live(objects)
			}
			read := false
			reader := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), interceptor.Funcs{
				List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					read = true
					if c.down {
						return errors.New("connection refused")
					}
					return to.List(ctx, list, opts...)
				},
			})
			got := Guard(t.Context(), c.sync, p, live(reader, simulateHere))
			if read == c.unread {
				t.Errorf("the cluster was read: %v", read)
			}
			if holds := got.Reasons().String(); c.held == "" && holds != "" || !strings.HasPrefix(holds, c.held) {
				t.Errorf("held: %q, want %q", holds, c.held)
			}
		})
	}
}

func TestTheForecastBeforeAnApplyIsBounded(t *testing.T) {
	objects := forecasttest.Live(t)
	sync := &v1alpha1.Sync{}
	sync.Spec.Guard.MaxNodesReplaced = new(int32(5))
	reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	stuck := func(ctx context.Context, _ v1alpha1.ClusterSpec, _, _ provision.ClusterSnapshot) (provision.Forecast, error) {
		if by, ok := ctx.Deadline(); !ok || time.Until(by) > waitTimeout+Timeout {
			t.Errorf("it may take until %s", by)
		}
		return provision.Forecast{}, context.DeadlineExceeded
	}
	if waitTimeout < time.Minute {
		t.Errorf("it waits up to %s for other simulations, one of which may take that long", waitTimeout)
	}
	p := Guard(t.Context(), sync, classChange(t, objects, userData), live(reader, stuck))
	if !strings.Contains(p.Reasons().String(), "cannot be predicted: context deadline exceeded") {
		t.Errorf("held: %q", p.Reasons())
	}
}

func TestWhatOnlyAWSCanResolveIsHeldByTheGuardAndNotByTheReview(t *testing.T) {
	objects := forecasttest.Live(t)
	p := classChange(t, objects, func(c *awsv1.EC2NodeClass) {
		c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@v20260101"}}
	})
	f := forecastOf(t, objects, p.Changes...)
	found := Nodes(f, nil)
	if !strings.Contains(found.Uncertain, "spec.amiSelectorTerms changes") {
		t.Errorf("doubt %q", found.Uncertain)
	}
	limit := 5
	forecast := func([]plan.Change) hold.Nodes { return found }
	if held := p.GuardNodes(&limit, nil, "", forecast); !strings.HasPrefix(held.Reasons().String(), "would replace 0 nodes, and maybe more: EC2NodeClass gpu: spec.amiSelectorTerms changes") {
		t.Errorf("with a guard: %q", held.Reasons())
	}
	if held := p.GuardNodes(nil, []plan.Review{{PullRequest: 12, Merged: true, Pools: map[string]int{"gpu": 0}}}, "", forecast); len(held.Reasons()) != 0 {
		t.Errorf("reviewed: %q", held.Reasons())
	}
}

func TestOnlyPullRequestsWhoseMergeMayBeToMakeAreReviews(t *testing.T) {
	sync := &v1alpha1.Sync{Status: v1alpha1.SyncStatus{PullRequests: &v1alpha1.PullRequestsStatus{}}}
	for i, phase := range []v1alpha1.PullRequestPhase{v1alpha1.PullRequestPlanned, v1alpha1.PullRequestFailed, v1alpha1.PullRequestMerged, v1alpha1.PullRequestRollingOut, v1alpha1.PullRequestDone, v1alpha1.PullRequestMerged} {
		item := v1alpha1.PullRequestStatus{Number: int64(i), Phase: phase}
		if i < 5 {
			item.Reviewed = &v1alpha1.ReviewedDisruption{
				Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu"}}, NodesReplaced: 3, NodesRemoved: 4, Pools: []v1alpha1.ReviewedPool{{Name: "cpu", Nodes: 3}, {Name: "gpu", Nodes: 4}, {Name: "new"}},
			}
		}
		sync.Status.PullRequests.Items = append(sync.Status.PullRequests.Items, item)
	}
	open := plan.Review{Changes: []plan.Fingerprint{{Kind: "NodePool", Name: "gpu"}}, Pools: map[string]int{"cpu": 3, "gpu": 4, "new": 0}}
	merged := open
	merged.PullRequest, merged.Merged = 2, true
	if d := cmp.Diff([]plan.Review{open, merged}, reviewed(sync)); d != "" {
		t.Errorf("reviews (-want +got):\n%s", d)
	}
	if got := reviewed(&v1alpha1.Sync{}); got != nil {
		t.Errorf("without pull requests: %v", got)
	}
}

func TestAReviewListsEveryPoolThatTheChangeTouches(t *testing.T) {
	objects := four(forecasttest.Live(t))
	class, _ := objects[1].(*awsv1.EC2NodeClass)
	pool, _ := objects[2].(*karpv1.NodePool)
	spare := pool.DeepCopy()
	spare.Name, spare.Spec.Template.Spec.NodeClassRef.Name = "spare", "spare"
	other := class.DeepCopy()
	other.Name = "spare"
	second := pool.DeepCopy()
	second.Name = "second" // without nodes, from the class gpu
	objects = append(objects, spare, other, second)
	item := func(kind string, o client.Object) state.Item {
		group := map[string]string{"NodePool": "karpenter.sh", "EC2NodeClass": awsapis.Group}[kind]
		return state.Item{Key: state.Key{Target: "kubernetes", Group: group, Kind: kind, Name: o.GetName()}, Object: content(t, o)}
	}
	step := func(kind string, was, is client.Object) plan.Plan {
		before, after := state.Set{}, state.Set{}
		if was != nil {
			before = state.NewSet(item(kind, was))
		}
		if is != nil {
			after = state.NewSet(item(kind, is))
		}
		return plan.Compute(after, before)
	}
	edited := func(edit func(*karpv1.NodePool)) plan.Plan {
		is := pool.DeepCopy()
		edit(is)
		return step("NodePool", pool, is)
	}
	added := spare.DeepCopy()
	added.Name = "new"
	for name, c := range map[string]struct {
		plan plan.Plan
		want v1alpha1.ReviewedDisruption // Objects without hashes
	}{
		"a class of two pools, one of which has nodes": {classChange(t, objects, userData), v1alpha1.ReviewedDisruption{
			Objects: []v1alpha1.ReviewedObject{{Kind: "EC2NodeClass", Name: "gpu"}}, NodesReplaced: 4, Pools: []v1alpha1.ReviewedPool{{Name: "gpu", Nodes: 4}, {Name: "second"}},
			MinMinutes: 8, MaxMinutes: 65, CostChange: HourlyCost(-2.104, -2.104)}},
		"a pool, for no node": {edited(func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(7)) }), v1alpha1.ReviewedDisruption{
			Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu"}}, Pools: []v1alpha1.ReviewedPool{{Name: "gpu"}}, CostChange: HourlyCost(0, 0)}},
		"a pool, in what is nothing to Karpenter": {edited(func(p *karpv1.NodePool) { p.Labels = map[string]string{"team": "a"} }), v1alpha1.ReviewedDisruption{
			Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu"}}, Pools: []v1alpha1.ReviewedPool{{Name: "gpu"}}, CostChange: HourlyCost(0, 0)}},
		"a pool that comes": {step("NodePool", nil, added), v1alpha1.ReviewedDisruption{
			Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "new"}}, Pools: []v1alpha1.ReviewedPool{{Name: "new"}}, CostChange: HourlyCost(0, 0)}},
		"a pool that goes with its nodes": {step("NodePool", pool, nil), v1alpha1.ReviewedDisruption{
			Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu"}}, NodesRemoved: 4, Pools: []v1alpha1.ReviewedPool{{Name: "gpu", Nodes: 4}}, CostChange: HourlyCost(-2.104, -2.104)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := forecastOf(t, objects, c.plan.Changes...)
			got := Reviewed(c.plan, f, nil)
			for i := range got.Objects {
				got.Objects[i].Hash = ""
			}
			if d := cmp.Diff(c.want, *got); d != "" {
				t.Errorf("reviewed (-want +got):\n%s", d)
			}
			now := Nodes(f, nil)
			for _, pool := range got.Pools {
				if now.Pools[pool.Name] != int(pool.Nodes) {
					t.Errorf("of %s the review is told of %d nodes, and the apply of %d", pool.Name, pool.Nodes, now.Pools[pool.Name])
				}
			}
		})
	}
}

func TestOnlyUnknownDriftMayReplaceMoreNodes(t *testing.T) {
	got := Nodes(&provision.Forecast{Unknown: []provision.Unknown{
		{Text: "NodeOverlay replaced is refused by Karpenter."}, {Text: "EC2NodeClass gpu: other images.", MoreReplaced: true},
	}}, nil)
	if diff := cmp.Diff("EC2NodeClass gpu: other images", got.Uncertain); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of a pool, class or overlay that the simulation cannot read, any node may be replaced: a count
// of 0 would let the change through. No workload replaces a node.
func TestWhatCannotBeReadMayReplaceMoreNodesWhereItIsKarpenters(t *testing.T) {
	for _, c := range []struct {
		group, version, kind string
		warning              bool
	}{
		{"karpenter.sh", "v1", "NodePool", true},
		{"karpenter.sh", "v1alpha1", "NodeOverlay", true},
		{awsapis.Group, "v1", "EC2NodeClass", true},
		{"apps", "v1", "Deployment", false},
		{"apps", "v1", "DaemonSet", false},
		{"node.k8s.io", "v1", "RuntimeClass", false},
	} {
		t.Run(c.kind, func(t *testing.T) {
			objects := forecasttest.Live(t)
			broken := state.Item{Key: state.Key{Target: "kubernetes", Group: c.group, Kind: c.kind, Namespace: "default", Name: "gpu"}, Object: map[string]any{
				"apiVersion": c.group + "/" + c.version, "kind": c.kind, "metadata": map[string]any{"name": "gpu"}, "spec": "none", "handler": []any{},
			}}
			if c.warning {
				broken.Key.Namespace = ""
			}
			changes := []plan.Change{{Key: broken.Key, Action: plan.Update, After: &broken}}
			if !c.warning { // It is read beside a pool that changes.
				changes = append(classChange(t, objects, userData).Changes, changes...)
			}
			reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
			f, err := live(reader, simulateHere)(t.Context(), state.Set{}, state.NewSet(broken), changes)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Unknown) == 0 || !strings.Contains(f.Unknown[len(f.Unknown)-1].Text, broken.Key.Kind) {
				t.Fatalf("it was read: %+v", f.Unknown)
			}
			found := Nodes(f, nil)
			if (found.Uncertain != "") != c.warning {
				t.Errorf("doubt %q, want one: %v", found.Uncertain, c.warning)
			}
			limit := 5
			p := plan.Plan{Changes: []plan.Change{{Key: broken.Key, Action: plan.Update, After: &broken}}}
			held := p.GuardNodes(&limit, nil, "", func([]plan.Change) hold.Nodes { return found })
			if (len(held.Reasons()) > 0) != c.warning {
				t.Errorf("held: %q, want it: %v", held.Reasons(), c.warning)
			}
		})
	}
}
