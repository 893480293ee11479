package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate"
)

// The pools of the prediction. The change gives the first another taint, the class
// of the second a larger volume, and the third, which shares the first's class,
// nothing but a weight.
const (
	taintsPool  = "taints"
	volumesPool = "volumes"
	calmPool    = "calm"
)

// predicted is an environment, and what was said about it.
type predicted struct {
	gpuSuite
	claims  *recording
	comment provision.Forecast
}

// TestThePredictedNodesAreReplacedAndNoOther asks the command for the consequences
// of a change, then makes the change, and compares.
func TestThePredictedNodesAreReplacedAndNoOther(t *testing.T) {
	t.Parallel()
	g := newGPUFixture(t, "predict", map[string]string{"pools.yaml": predictPools("before", 50, 1)})
	g.waitForNodes()
	g.protect()
	p := g.predicts(predictPools("after", 60, 2))
	p.predictsLiveNodes()
	p.declare("Change a taint and a volume")
	p.replaced("the nodes that nothing keeps are replaced", func(n provision.Node) bool { return !n.Blocked() })
	p.reportsKeptNodes()
	p.free()
	p.replaced("those that were kept follow", func(provision.Node) bool { return true })
	p.noOther()
	g.nothingLeaks()
}

// predicts writes the change to the working copy and asks what it will do.
func (g gpuSuite) predicts(pools string) *predicted {
	g.Helper()
	p := &predicted{gpuSuite: g, claims: g.record(&karpv1.NodeClaimList{})}
	g.git.repo.write("config/pools.yaml", pools)
	got := typed(g.T, g.Environment, g.git.repo.dir, "plan", "config", "-o", "json", "--namespace="+engineSystem)
	got.expect(g.T, 1)
	var message struct{ Forecast *provision.Forecast }
	if err := json.Unmarshal([]byte(got.out), &message); err != nil || message.Forecast == nil {
		g.Fatalf("no forecast, %v, in:\n%s", err, got.out)
	}
	p.comment = *message.Forecast
	return p
}

// predictsLiveNodes compares the prediction with what the pools are made of.
func (p *predicted) predictsLiveNodes() {
	p.Helper()
	reasons := map[string]string{taintsPool: "NodePoolDrifted", volumesPool: "NodeClassDrift"}
	want := map[string]string{}
	for pool, reason := range reasons {
		kept := p.firstPod(pool).Spec.NodeName
		claims, err := p.engineSuite.claims(pool)
		if err != nil {
			p.Fatal(err)
		}
		for _, claim := range claims {
			want[claim.Name] = reason
			if claim.Status.NodeName == kept {
				want[claim.Name] += map[string]string{taintsPool: " do-not-disrupt", volumesPool: " pdb"}[pool]
			}
		}
	}
	if diff := cmp.Diff(want, reasonsByClaim(p.comment.Replaced)); diff != "" {
		p.Errorf("the prediction differs (-want +got):\n%s", diff)
	}
	if f := p.comment; len(f.Drifted)+len(f.Removed)+len(f.PodScheduling.NewlyUnschedulable)+len(f.Unknown) > 0 || f.Rollout.Nodes != 6 || f.Rollout.Blocked != 2 || !f.Rollout.Incomplete {
		p.Errorf("more is told than there is: drifted %v, removed %v, unscheduled %v, unknown %v, %+v", f.Drifted, f.Removed, f.PodScheduling.NewlyUnschedulable, f.Unknown, f.Rollout)
	}
	if known := p.comment.Cost.Prices; len(known) == 0 || slices.ContainsFunc(known, func(of provision.Price) bool {
		return of.Basis != string(pricelist.OnDemand) && of.Basis != string(pricelist.Spot)
	}) {
		p.Errorf("a plan in front of an account has other prices than the account's: %v", known)
	}
	if first := p.comment.Replaced[0]; first.Pool != taintsPool || len(first.Pods) > 0 {
		p.Errorf("the first is to be the node without pods, and is %+v", first)
	}
}

// reasonsByClaim are the reasons of nodes, with what keeps them.
func reasonsByClaim(nodes []provision.Node) map[string]string {
	out := map[string]string{}
	for _, n := range nodes {
		out[n.NodeClaim] = n.Reason
		for _, b := range n.Blockers {
			out[n.NodeClaim] += " " + string(b.Kind)
		}
	}
	return out
}

// past is what the API server has shown of the NodeClaims: why each that is gone or
// goes was marked, and the marks of those that stay.
func (p *predicted) past() (gone, marked map[string]string) {
	p.Helper()
	gone, marked = map[string]string{}, map[string]string{}
	for _, one := range p.claims.all(p.gpuSuite) {
		claim := one.object.(*karpv1.NodeClaim)
		if mark := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); mark.IsTrue() {
			marked[claim.Name] = mark.Reason
		}
		if one.gone {
			gone[claim.Name] = marked[claim.Name]
		} else if !claim.DeletionTimestamp.IsZero() {
			gone[claim.Name] = "is going"
		}
	}
	for name := range gone {
		delete(marked, name)
	}
	return gone, marked
}

// replaced waits until the engine has taken exactly the predicted nodes, each for
// the predicted reason, and every other that was predicted is marked. A node that
// was not predicted ends the test.
func (p *predicted) replaced(what string, now func(provision.Node) bool) {
	p.Helper()
	start := time.Now()
	goes, stays := map[string]string{}, map[string]string{}
	for _, n := range p.comment.Replaced {
		if now(n) {
			goes[n.NodeClaim] = n.Reason
		} else {
			stays[n.NodeClaim] = n.Reason
		}
	}
	p.until(what, func() error {
		gone, marked := p.past()
		for name, why := range gone {
			if _, ok := goes[name]; !ok {
				p.Fatalf("NodeClaim %s goes (%s), which was not predicted", name, why)
			}
		}
		if diff := cmp.Diff([]map[string]string{goes, stays}, []map[string]string{gone, marked}); diff != "" {
			return fmt.Errorf("gone and marked are (-want +got):\n%s", diff)
		}
		return nil
	})
	p.Logf("%s: %d nodes after %s", what, len(goes), since(start))
}

// reportsKeptNodes reads the live cluster as a rollout's report does.
func (p *predicted) reportsKeptNodes() {
	p.Helper()
	want := slices.DeleteFunc(slices.Clone(p.comment.Replaced), func(n provision.Node) bool { return !n.Blocked() })
	p.eventually("the nodes that are kept are reported", func() error {
		nodes, unknown, err := simulate.Drifted(p.Context(), p.snapshot())
		if err != nil {
			return err
		}
		if diff := cmp.Diff(reasonsByClaim(want), reasonsByClaim(nodes)); diff != "" || len(unknown) > 0 {
			return fmt.Errorf("unknown is %v, and they are (-want +got):\n%s", unknown, diff)
		}
		return nil
	})
}

// snapshot is what is there.
func (p *predicted) snapshot() provision.ClusterSnapshot {
	p.Helper()
	var (
		pools   karpv1.NodePoolList
		classes awsv1.EC2NodeClassList
		claims  karpv1.NodeClaimList
		nodes   corev1.NodeList
		pods    corev1.PodList
		budgets policyv1.PodDisruptionBudgetList
	)
	for _, list := range []client.ObjectList{&pools, &classes, &claims, &nodes, &pods, &budgets} {
		if err := p.hand.List(p.Context(), list); err != nil {
			p.Fatal(err)
		}
	}
	return provision.ClusterSnapshot{
		Cluster: provision.Cluster{Region: gpuRegion}, Now: time.Now(),
		NodePools: pointers(pools.Items), NodeClasses: pointers(classes.Items), NodeClaims: pointers(claims.Items),
		Nodes: pointers(nodes.Items), Pods: pointers(pods.Items), PodDisruptionBudgets: pointers(budgets.Items),
	}
}

func pointers[T any](items []T) (out []*T) {
	for i := range items {
		out = append(out, &items[i])
	}
	return out
}

// free takes away what keeps the two nodes.
func (p *predicted) free() {
	p.Helper()
	for _, n := range p.comment.Replaced {
		for _, b := range n.Blockers {
			if b.Kind == "do-not-disrupt" {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Pod.Namespace, Name: b.Pod.Name}}
				p.patchPod(pod, `{"metadata":{"annotations":{"`+karpv1.DoNotDisruptAnnotationKey+`":null}}}`)
			}
		}
	}
	if err := p.hand.Delete(p.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard", Namespace: "default"}}); err != nil {
		p.Fatal(err)
	}
}

// noOther looks once more when all is done: nobody else went or is to go, and the
// pods have all found their way.
func (p *predicted) noOther() {
	p.Helper()
	p.oneNodeEach(map[string]int{volumesPool: 2, calmPool: 2}, true)
	p.until("the pods of "+taintsPool+" run on new nodes", func() error {
		pods, err := p.pods(taintsPool)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
	gone, marked := p.past()
	want := maps.Collect(func(yield func(string, string) bool) {
		for _, n := range p.comment.Replaced {
			if !yield(n.NodeClaim, n.Reason) {
				return
			}
		}
	})
	if diff := cmp.Diff([]map[string]string{want, {}}, []map[string]string{gone, marked}); diff != "" {
		p.Errorf("gone and marked are (-want +got):\n%s", diff)
	}
	nodes, unknown, err := simulate.Drifted(p.Context(), p.snapshot())
	if err != nil || len(nodes)+len(unknown) > 0 {
		p.Errorf("in the end there are still %v, %v, %v", reasonsByClaim(nodes), unknown, err)
	}
	p.terminated(want)
}

// terminated compares with what AWS was made to end.
func (p *predicted) terminated(want map[string]string) {
	p.Helper()
	name := map[string]string{}
	for _, one := range p.claims.all(p.gpuSuite) {
		claim := one.object.(*karpv1.NodeClaim)
		name[claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]] = claim.Name
	}
	ended := map[string]string{}
	for _, i := range p.AWS.Instances() {
		if over(i.State) {
			ended[name[i.ID]] = want[name[i.ID]]
		}
	}
	if diff := cmp.Diff(want, ended); diff != "" {
		p.Errorf("instances were terminated of (-want +got):\n%s", diff)
	}
}
