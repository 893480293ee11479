package kubernetes_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// engineBench has the kinds of Clusters, and no Cluster or NodeClaim of another test.
func engineBench(t *testing.T) *bench {
	t.Helper()
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.noClusters()
	b.noNodeClaims()
	return b
}

// ownedClaim makes a NodeClaim as Karpenter does for a NodePool, and returns what terminates its
// instance. Kubernetes' garbage collector may run and delete it, and Karpenter's finalizer keeps it.
func (b *bench) ownedClaim(uid string) (gone func()) {
	b.Helper()
	b.make(strings.Replace(claim, "labels:", "finalizers: [karpenter.sh/termination], ownerReferences: [{apiVersion: karpenter.sh/v1, kind: NodePool, name: $NS, uid: "+uid+"}], labels:", 1), "karpenter")
	gone = func() {
		b.Helper()
		ctx := context.WithoutCancel(b.Context())
		live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}}
		live.SetName("claim-" + b.ns)
		err := client.IgnoreNotFound(b.hand.Delete(ctx, live))
		if err == nil {
			err = client.IgnoreNotFound(b.hand.Patch(ctx, live, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
		}
		if err != nil {
			b.Error(err)
		}
	}
	b.Cleanup(gone)
	return gone
}

// engineMode is how the live Cluster has the engine run; empty where there is no Cluster.
func (b *bench) engineMode() string {
	b.Helper()
	live, err := b.find("poolwright.dev/v1alpha1", "Cluster", "cluster")
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		b.Fatal(err)
	}
	mode, _, _ := unstructured.NestedString(live.Object, "spec", "engine", "mode")
	return mode
}

// outcome carries a plan out as the controller does.
func (b *bench) outcome(p plan.Plan) apply.Outcome {
	b.Helper()
	return apply.Run(b.Context(), p, map[string]targets.Target{kubernetes.Name: b.target}, apply.Options{})
}

// otherClaim is one that nobody deletes.
var otherClaim = strings.Replace(claim, "claim-$NS", "other-$NS", 1)

const poolGone = "9d1f0000-0000-0000-0000-000000000000"

// One commit removes a pool and lets the engine go by which the pool's nodes are terminated.
func TestTheEngineStopsAfterTheNodesOfAPoolThatGoesInTheSameCommit(t *testing.T) {
	for name, after := range map[string][]string{
		"the engine is switched off":     {clusterOf("cluster", `"Off"`)},
		"the engine is left to another":  {clusterOf("cluster", "External")},
		"the Cluster becomes another's":  {strings.Replace(clusterOf("cluster", "Embedded"), "name: c,", "name: d,", 1)},
		"the Cluster is removed as well": nil,
	} {
		for how, held := range map[string]bool{"": false, ", and the pool's deletion is held at first": true} {
			t.Run(name+how, func(t *testing.T) {
				b := engineBench(t)
				b.reconcile(b.declare(clusterOf("cluster", "Embedded"), pool, config, web))
				gone := b.ownedClaim(string(b.get("karpenter.sh/v1", "NodePool", b.ns).GetUID()))
				runs := func() bool {
					live, err := b.find("poolwright.dev/v1alpha1", "Cluster", "cluster")
					if apierrors.IsNotFound(err) {
						return false
					}
					is, _, _ := unstructured.NestedString(live.Object, "spec", "name")
					return b.engineMode() == "Embedded" && is == "c"
				}
				declared := b.declare(append([]string{config, web}, after...)...)
				token := b.guarded(declared, "").Confirmation()
				if !strings.Contains(token, "+1Engine") {
					t.Errorf("confirmed with %q", token)
				}
				if held {
					p := b.guarded(declared, token)
					for i, c := range p.Changes {
						if c.Key.Kind == "NodePool" {
							p.Changes[i].Hold = hold.Reasons{{Rule: hold.MaxNodesReplaced}}
						}
					}
					if b.outcome(p); !runs() {
						t.Fatal("the engine stopped while the deletion of a pool with nodes is held")
					}
					b.goes(false)
				}
				if err := b.outcome(b.guarded(declared, token)).Err(); reasonOf(err) != "EngineNeeded" || !runs() {
					t.Errorf("the engine runs: %v: %v", runs(), err)
				}
				b.goes(true)
				if err := b.outcome(b.guarded(declared, token)).Err(); !runs() {
					t.Errorf("the engine stopped while a node of the pool is there: %v", err)
				}
				gone()
				if err := b.outcome(b.guarded(declared, token)).Err(); err != nil || runs() {
					t.Errorf("with the nodes gone, the engine runs: %v: %v", runs(), err)
				}
				b.converged(declared)
				b.reconcile(b.declare())
			})
		}
	}
}

// Whoever switched the engine on by hand has it terminate nodes.
func TestTheEngineThatAHandSwitchedOnStopsAfterNodesToo(t *testing.T) {
	b := engineBench(t)
	off := b.declare(clusterOf("cluster", `"Off"`))
	b.reconcile(off)
	b.edit("poolwright.dev/v1alpha1", "Cluster", "cluster", func(o map[string]any) { set(o, "Embedded", "spec", "engine", "mode") })
	gone := b.ownedClaim(poolGone)
	if err := b.outcome(b.plan(off)).Err(); reasonOf(err) != "EngineNeeded" || b.engineMode() != "Embedded" {
		t.Errorf("the mode is %s: %v", b.engineMode(), err)
	}
	gone()
	b.reconcile(off)
	if mode := b.engineMode(); mode != "Off" {
		t.Errorf("the mode is %s", mode)
	}
	b.reconcile(b.declare())
}

// parts are those by which the controller runs.
func parts(t *testing.T) map[string]string {
	t.Helper()
	definition, err := os.ReadFile("../../../config/crd/poolwright.dev_clusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"Deployment":               controllerDeployment,
		"ServiceAccount":           "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: poolwright, namespace: $HOME}\n",
		"Namespace":                "apiVersion: v1\nkind: Namespace\nmetadata: {name: $HOME}\n",
		"ClusterRoleBinding":       binding,
		"CustomResourceDefinition": string(definition),
	}
}

// The engine stops with the controller as it does with its Cluster.
func TestWhatTheControllerRunsByGoesAfterWhatItsEngineDeletes(t *testing.T) {
	for kind, manifest := range parts(t) {
		for mode, runs := range map[string]bool{"Embedded": true, `"Off"`: false} {
			t.Run(kind+", with the engine "+mode, func(t *testing.T) {
				b := engineBench(t)
				b.reconcile(b.declare(manifest, config, web))
				b.make(clusterOf("cluster", mode), "kubectl-create")
				gone := b.ownedClaim(poolGone)
				b.make(otherClaim, "karpenter")
				defer b.removeAll(otherClaim)
				p := b.plan(b.declare(config, web))
				if len(p.Changes) != 1 {
					t.Fatalf("planned %s", show(p))
				}
				c := p.Changes[0]
				if stops := c.Before.Losses["Engine"] > 0; stops != runs || c.Before.AfterNodes != runs {
					t.Errorf("%s stops the engine: %v, after nodes: %v", c.Key, stops, c.Before.AfterNodes)
				}
				if !runs && (kind == "Namespace" || kind == "CustomResourceDefinition") {
					return // Other tests need it, or nobody finishes its deletion.
				}
				if got := reasonOf(b.target.Apply(t.Context(), c)); (got == "EngineNeeded") != runs {
					t.Errorf("deleting %s while a node is to be terminated: %q", c.Key, got)
				}
				gone()
				if kind != "Namespace" && kind != "CustomResourceDefinition" {
					b.reconcile(b.declare(config, web))
				}
			})
		}
	}
}

func TestAControllerIsScaledToZeroAfterWhatItsEngineDeletes(t *testing.T) {
	b := engineBench(t)
	b.reconcile(b.declare(controllerDeployment))
	b.make(clusterOf("cluster", "Embedded"), "kubectl-create")
	gone := b.ownedClaim(poolGone)
	b.make(otherClaim, "karpenter")
	defer b.removeAll(otherClaim)
	none := b.declare(strings.Replace(controllerDeployment, "replicas: 2", "replicas: 0", 1))
	p := b.plan(none)
	if len(p.Changes) != 1 || p.Changes[0].Before.Losses["Engine"] != 1 {
		t.Fatalf("planned %s", show(p))
	}
	if got := reasonOf(b.target.Apply(t.Context(), p.Changes[0])); got != "EngineNeeded" {
		t.Errorf("scaling to zero while a node is to be terminated: %q", got)
	}
	gone()
	b.reconcile(none)
}

// Whoever confirmed that nobody knows what is lost has not confirmed that nothing is waited for.
func TestAConfirmedLossThatCannotBeCountedWaitsForTheEngine(t *testing.T) {
	for name, after := range map[string][]string{"of a deletion": nil, "of an update": {clusterOf("cluster", `"Off"`)}} {
		t.Run(name, func(t *testing.T) {
			b := engineBench(t)
			b.reconcile(b.declare(clusterOf("cluster", "Embedded"), config, web))
			gone := b.ownedClaim(poolGone)
			declared := b.declare(append([]string{config, web}, after...)...)
			b.wire.failing(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/nodeclaims") {
					return response(r, http.StatusForbidden, "Forbidden", "no"), nil
				}
				return nil, nil
			})
			token := b.guarded(declared, "").Confirmation()
			if !strings.Contains(token, "+1Uncounted") {
				t.Fatalf("asked for %q", token)
			}
			if err := b.outcome(b.guarded(declared, token)).Err(); err == nil || b.engineMode() != "Embedded" {
				t.Errorf("the mode is %q: %v", b.engineMode(), err)
			}
			b.wire.failing(nil)
			gone()
			b.reconcile(declared)
			b.reconcile(b.declare())
		})
	}
}

func TestNoEngineStopsWithAClusterThatHasNoneRun(t *testing.T) {
	for name, tt := range map[string]struct{ older, before, after string }{
		"a Cluster with the engine off is deleted":       {"", clusterOf("cluster", `"Off"`), ""},
		"one with another's engine is deleted":           {"", clusterOf("cluster", "External"), ""},
		"one with the engine off becomes another's":      {"", clusterOf("cluster", `"Off"`), strings.Replace(clusterOf("cluster", `"Off"`), "name: c,", "name: d,", 1)},
		"one that does not decide has it switched off":   {clusterOf("a-first", "Embedded"), clusterOf("cluster", "Embedded"), clusterOf("cluster", `"Off"`)},
		"one with the engine off is left to another one": {"", clusterOf("cluster", `"Off"`), clusterOf("cluster", "External")},
	} {
		t.Run(name, func(t *testing.T) {
			b := engineBench(t)
			if tt.older != "" {
				b.make(tt.older, "kubectl-create")
				t.Cleanup(func() { b.removeAll(tt.older) })
			}
			gone := b.ownedClaim(poolGone)
			b.reconcile(b.declare(tt.before, config, web))
			p := b.guarded(b.declare(tt.after, config, web), "")
			if len(p.Changes) != 1 || !p.Changes[0].Admitted() || p.Changes[0].Before.Impact != "" || p.Changes[0].Before.AfterNodes {
				t.Errorf("planned %s, %+v", show(p), p.Reasons())
			}
			b.reconcile(b.declare(tt.after, config, web))
			gone()
			b.reconcile(b.declare())
		})
	}
}

// Only Karpenter takes its finalizer from an EC2NodeClass.
func TestAClusterIsDeletedAfterANodeClassThatIsBeingDeleted(t *testing.T) {
	b := engineBench(t)
	b.reconcile(b.declare(clusterOf("cluster", "Embedded")))
	b.make(strings.Replace(class, "metadata: {", "metadata: {finalizers: [karpenter.k8s.aws/termination], ", 1), "karpenter")
	live := b.get("karpenter.k8s.aws/v1", "EC2NodeClass", b.ns)
	if err := b.hand.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := b.outcome(b.plan(b.declare())).Err(); reasonOf(err) != "EngineNeeded" || b.engineMode() != "Embedded" {
		t.Errorf("the mode is %q: %v", b.engineMode(), err)
	}
	if err := b.hand.Patch(t.Context(), live, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))); err != nil {
		t.Fatal(err)
	}
	b.reconcile(b.declare())
}

// An uninstallation has stopped the engine before: nobody would come to terminate nodes.
func TestWhoStopsTheEngineByItselfWaitsForNothing(t *testing.T) {
	b := engineBench(t)
	b.mod = func(c *kubernetes.Config) { c.StopsEngine = true }
	b.restart()
	b.reconcile(b.declare(controllerDeployment))
	b.make(clusterOf("cluster", "Embedded"), "kubectl-create")
	b.ownedClaim(poolGone)
	if err := b.outcome(b.plan(b.declare())).Err(); err != nil {
		t.Error(err)
	}
}
