package kubernetes_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// What comes between two looks: a node of the pool with a pod.
const nodeWithPod = `
apiVersion: v1
kind: Node
metadata: {name: node-$NS, labels: {karpenter.sh/nodepool: $NS}}
---
apiVersion: v1
kind: Pod
metadata: {name: training, namespace: $NS}
spec: {nodeName: node-$NS, containers: [{name: c, image: i}]}
`

const anotherNode = `
apiVersion: v1
kind: Node
metadata: {name: second-$NS, labels: {karpenter.sh/nodepool: $NS}}
`

const claim = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim-$NS, labels: {karpenter.sh/nodepool: $NS}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
`

const class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: $NS}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {x: z}}]
  securityGroupSelectorTerms: [{tags: {x: z}}]
`

// guarded plans as the controller does, after a confirmation.
func (b *bench) guarded(declared state.Set, confirmation string) plan.Plan {
	b.Helper()
	desired := b.want(declared)
	observed, err := b.target.Observe(b.Context(), desired)
	if err != nil {
		b.Fatal(err)
	}
	return plan.Compute(desired, observed, plan.Guard(50, confirmation))
}

// run carries a plan out as the controller does, and reports what became of its only
// deletion.
func (b *bench) run(p plan.Plan) apply.Result {
	b.Helper()
	outcome := apply.Run(b.Context(), p, map[string]targets.Target{kubernetes.Name: b.target}, apply.Options{})
	var found []apply.Result
	for _, r := range outcome.Results {
		if r.Change.Action == plan.Delete {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		b.Fatalf("%d deletions in %v", len(found), b.lines(p))
	}
	return found[0]
}

// denying answers a method on paths with an end, and no dry run, as a webhook does that
// refuses.
func (b *bench) denying(method, end string) {
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method == method && r.URL.Query().Get("dryRun") == "" && strings.HasSuffix(r.URL.Path, end) {
			return response(r, http.StatusForbidden, "Forbidden", "a webhook says no"), nil
		}
		return nil, nil
	})
}

// goes fails where the pool is or is not there.
func (b *bench) goes(want bool) {
	b.Helper()
	live, err := b.find("karpenter.sh/v1", "NodePool", b.ns)
	if gone := apierrors.IsNotFound(err) || err == nil && live.GetDeletionTimestamp() != nil; gone != want {
		b.Errorf("the pool is gone: %v, want %v", gone, want)
	}
}

// A commit removes an idle pool. Something else in it is refused, so the deletion is
// skipped. By the time that this is mended the pool has nodes and work.
func TestADeletionThatWasSkippedNeedsAConfirmationWhenMoreGoesWithIt(t *testing.T) {
	for name, restart := range map[string]bool{"the same process": false, "the next process": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(pool, config, web))
			without := b.declare(strings.ReplaceAll(config, `a: "1"`, `a: "2"`), web)
			b.denying(http.MethodPatch, "/configmaps/settings")
			if r := b.run(b.guarded(without, "")); r.Status != apply.NotAttempted {
				t.Fatalf("the deletion is %s: %v", r.Status, r.Err)
			}
			b.hasAccount(b.ns)
			b.make(nodeWithPod, "karpenter")
			b.wire.failing(nil)
			if restart {
				b.restart()
			}
			if r := b.run(b.guarded(without, "")); r.Status != apply.Held {
				t.Errorf("the deletion is %s: %v", r.Status, r.Err)
			}
			b.goes(false)
		})
	}
}

// What a person allowed goes on over failures and restarts, for as much as was allowed.
func TestWhatWasConfirmedGoesOnForAsMuchAsWasConfirmed(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(pool, config, web))
	b.hasAccount(b.ns)
	b.make(nodeWithPod, "karpenter")
	without := b.declare(config, web)
	first := b.guarded(without, "").Confirmation()
	b.denying(http.MethodDelete, "/nodepools/"+b.ns)
	if r := b.run(b.guarded(without, first)); r.Status != apply.Failed {
		t.Fatalf("the deletion is %s: %v", r.Status, r.Err)
	}
	b.restart()
	if p := b.guarded(without, first); p.Confirmation() != "" {
		t.Errorf("what was confirmed is asked for again: %v", p.Reasons())
	}
	if p := b.guarded(without, ""); p.Confirmation() != first {
		t.Errorf("taken back, it asks for %q, not %q", p.Confirmation(), first)
	}
	b.make(anotherNode, "karpenter")
	b.restart()
	second := ""
	for _, confirmation := range []string{"", first} {
		p := b.guarded(without, confirmation)
		if r := b.run(p); r.Status != apply.Held {
			t.Errorf("with a node more, confirmed with %q, the deletion is %s: %v", confirmation, r.Status, r.Err)
		}
		second = p.Confirmation()
	}
	b.wire.failing(nil)
	b.goes(false)
	if r := b.run(b.guarded(without, second)); r.Status != apply.Applied {
		t.Errorf("confirmed anew, the deletion is %s: %v", r.Status, r.Err)
	}
	b.goes(true)
}

// What is desired again is allowed no more, also where what it has become waits for a
// person, and nothing is written to it.
func TestWhatIsDesiredAgainIsNotAllowedToGoAnyMore(t *testing.T) {
	for name, changed := range map[string]string{
		"as it was":                          pool,
		"with a change that a person allows": strings.Replace(pool, "spec:", "spec:\n  weight: 7", 1),
	} {
		for when, restart := range map[string]bool{"in the same process": false, "in the next process": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				b := newBench(t)
				b.reconcile(b.declare(pool, config, web))
				b.hasAccount(b.ns)
				b.make(nodeWithPod, "karpenter")
				without := b.declare(config, web)
				text := b.guarded(without, "").Confirmation()
				b.denying(http.MethodDelete, "/nodepools/"+b.ns)
				if r := b.run(b.guarded(without, text)); r.Status != apply.Failed {
					t.Fatalf("the deletion is %s: %v", r.Status, r.Err)
				}
				b.wire.failing(nil)
				again := b.guarded(b.declare(changed, config, web), "")
				for i := range again.Changes {
					again.Changes[i].Hold = hold.Reasons{{Rule: hold.DeletionLosses}}
				}
				apply.Run(t.Context(), again, map[string]targets.Target{kubernetes.Name: b.target}, apply.Options{})
				if restart {
					b.restart()
				}
				if r := b.run(b.guarded(without, "")); r.Status != apply.Held {
					t.Errorf("removed again, the deletion is %s: %v", r.Status, r.Err)
				}
				b.goes(false)
			})
		}
	}
}

// growths are deletions that are planned while nothing goes with them, and what comes
// until they are sent.
func growths() map[string]struct{ manifest, kind, comes string } {
	const space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: space-$NS}"
	return map[string]struct{ manifest, kind, comes string }{
		"a node of the pool":         {pool, "NodePool", nodeWithPod},
		"an instance that is coming": {pool, "NodePool", claim},
		"a claim on a volume": {space, "Namespace", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: space-$NS}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`},
		"an object of the kind": {widgets, "CustomResourceDefinition", `
apiVersion: example.com/v1
kind: Widget
metadata: {name: late-$NS, namespace: $NS}
`},
		"a node of the class": {class, "EC2NodeClass", claim},
		"a node with GPUs": {"", "DaemonSet", `
apiVersion: v1
kind: Node
metadata: {name: gpu-$NS, labels: {karpenter.sh/nodepool: $NS, karpenter.k8s.aws/instance-gpu-manufacturer: nvidia}}
`},
	}
}

func TestNothingIsDeletedWithWhichMoreGoesThanWasPlanned(t *testing.T) {
	for name, tt := range growths() {
		for when, atConflict := range map[string]bool{"before the first request": false, "and moves it, so that the first request gets a conflict": true} {
			t.Run(name+" comes "+when, func(t *testing.T) {
				b := newPluginBench(t)
				if tt.manifest == "" {
					tt.manifest = timeSlices(10)
				}
				b.applyAll(b.plan(b.declare(tt.manifest, config)))
				b.hasAccount(b.ns)
				var change plan.Change
				for _, c := range b.plan(b.declare(config)).Changes {
					if c.Key.Kind == tt.kind {
						change = c
					}
				}
				grow := func() { b.make(tt.comes, "karpenter") }
				if atConflict {
					once := false
					b.wire.failing(func(r *http.Request) (*http.Response, error) {
						if r.Method != http.MethodDelete || once {
							return nil, nil
						}
						once = true
						grow()
						return response(r, http.StatusConflict, "Conflict", "the object has been modified"), nil
					})
				} else {
					grow()
				}
				err := b.target.Apply(t.Context(), change)
				grown := &targets.LossesGrownError{}
				if !errors.As(err, &grown) || !errors.Is(err, targets.ErrChanged) || grown.Allowed.Covers(grown.Now) {
					t.Errorf("deleting %s returned %v", change.Key, err)
				}
				live, err := b.find(apiVersionOf(change), change.Key.Kind, change.Key.Name)
				if change.Key.Namespace == "kube-system" {
					live, err = b.plugins(change.Key.Name)
				}
				if err != nil || live.GetDeletionTimestamp() != nil {
					t.Errorf("%s is gone: %v", change.Key, err)
				}
				b.wire.failing(nil)
				if p := b.guarded(b.declare(config), ""); len(p.Reasons()) == 0 {
					t.Error("the next plan does not ask")
				}
				if tt.kind == "CustomResourceDefinition" { // All tests share it.
					b.applyAll(b.plan(b.declare(config)))
					eventually(b, func() bool {
						_, err := b.find("apiextensions.k8s.io/v1", tt.kind, change.Key.Name)
						return apierrors.IsNotFound(err)
					})
				}
			})
		}
	}
}

func apiVersionOf(c plan.Change) string {
	if c.Key.Group == "" {
		return c.Before.Version
	}
	return c.Key.Group + "/" + c.Before.Version
}

// plugins reads a DaemonSet of a configuration.
func (b *bench) plugins(name string) (*unstructured.Unstructured, error) {
	b.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet"}}
	return u, b.hand.Get(b.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, u)
}

func TestWhatCannotBeCountedIsNotDeleted(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(pool, config))
	p := b.guarded(b.declare(config), "")
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			return response(r, http.StatusForbidden, "Forbidden", "no"), nil
		}
		return nil, nil
	})
	if r := b.run(p); r.Status != apply.Failed || r.Err == nil {
		t.Errorf("the deletion is %s: %v", r.Status, r.Err)
	}
	b.goes(false)
	// A person may let it go all the same.
	p = b.guarded(b.declare(config), "")
	if r := b.run(p); r.Status != apply.Held {
		t.Fatalf("planned now, the deletion is %s: %v", r.Status, r.Err)
	}
	if r := b.run(b.guarded(b.declare(config), p.Confirmation())); r.Status != apply.Applied {
		t.Errorf("confirmed, the deletion is %s: %v", r.Status, r.Err)
	}
	b.goes(true)
}

// The deletion of a namespace is the deletion of what waits in it.
func TestANamespaceWaitsWithWhatWaitsInIt(t *testing.T) {
	b := newBench(t)
	const space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: space-$NS}"
	const part = `
apiVersion: v1
kind: ConfigMap
metadata: {name: part, namespace: space-$NS, labels: {app.kubernetes.io/part-of: poolwright}}
`
	b.reconcile(b.declare(space, part, config, web, pool))
	p := b.guarded(b.declare(config, web, pool), "")
	for _, c := range p.Changes {
		if c.Admitted() {
			t.Errorf("%s goes", c.Key)
		}
	}
	// Nor does one that was planned before the thing in it was held.
	for _, c := range p.Changes {
		if c.Key.Kind == "Namespace" {
			before := *c.Before
			before.Impact, before.Losses = "", nil
			c.Before = &before
			if err := b.target.Apply(t.Context(), c); !errors.Is(err, targets.ErrChanged) {
				t.Errorf("deleting %s returned %v", c.Key, err)
			}
		}
	}
}

// The label of Poolwright's installation can be written by whoever writes to the
// repository: what goes with an object that has it counts all the same.
func TestTheLabelOfTheInstallationHidesNoLosses(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(strings.Replace(pool, "metadata: {name: $NS,", "metadata: {name: $NS, labels: {app.kubernetes.io/part-of: poolwright},", 1)))
	b.hasAccount(b.ns)
	b.make(nodeWithPod, "karpenter")
	t.Cleanup(func() { b.removeAll(nodeWithPod + "---" + anotherNode) })
	p := b.guarded(state.NewSet(), "")
	if len(p.Changes) != 1 || p.Changes[0].Before.Losses["Node"] != 1 || p.Changes[0].Before.Losses["Object"] != 1 {
		t.Fatalf("planned %s", show(p))
	}
	b.make(anotherNode, "karpenter")
	if p = b.guarded(state.NewSet(), p.Confirmation()); len(p.Changes) != 1 || p.Changes[0].Admitted() {
		t.Errorf("with one node more than was confirmed: %s", show(p))
	}
}
