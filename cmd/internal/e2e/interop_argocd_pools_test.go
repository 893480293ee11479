package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// interopPool is a NodePool with a limit of vCPUs and its class, which no engine provisions.
func interopPool(name string, limit int) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  limits: {cpu: "%[2]d"}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{nodes: "1"}]}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[1]s}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}
`, name, limit)
}

func interopClass(name string) string {
	return fmt.Sprintf(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  amiFamily: AL2023
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20260101}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
`, name)
}

// pool is a live NodePool; nil where there is none.
func (s *syncFixture) pool(name string) *unstructured.Unstructured {
	s.Helper()
	live := &unstructured.Unstructured{}
	live.SetAPIVersion("karpenter.sh/v1")
	live.SetKind("NodePool")
	err := s.hand.Get(s.Context(), client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return live
}

// limited waits until a live NodePool has a limit of vCPUs.
func (s *syncFixture) limited(name string, limit int) *unstructured.Unstructured {
	s.Helper()
	var live *unstructured.Unstructured
	s.eventually(fmt.Sprintf("NodePool %s has the limit %d", name, limit), func() error {
		if live = s.pool(name); live == nil {
			return fmt.Errorf("it does not exist")
		}
		if got, _, _ := unstructured.NestedString(live.Object, "spec", "limits", "cpu"); got != fmt.Sprint(limit) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	return live
}

// patches changes a live NodePool by hand.
func (s *syncFixture) patches(name, patch string) {
	s.Helper()
	if err := s.hand.Patch(s.Context(), s.pool(name), mergePatch(patch), client.FieldOwner("kubectl-edit")); err != nil {
		s.Fatal(err)
	}
}

// An Application that applies a Sync neither has nor prunes what the Sync applies, and a run of it refreshes the Application once at most.
func TestInteropArgoCDLeavesThePoolsOfTheSyncThatItAppliesAlone(t *testing.T) {
	t.Parallel()
	const name = "interop-argocd-pools"
	a, app := shippingArgoCD(t, name, "a")
	uid := a.pool(name).GetUID()
	for range 5 {
		a.refresh(app, "hard")
		a.handled()
	}
	if pools, all := a.poolsOf(app); len(pools) > 0 || !slices.Equal(all, []string{"Sync/" + name}) {
		t.Errorf("the Application has the pools %v of %v", pools, all)
	}
	if now := a.limited(name, 100); now.GetUID() != uid {
		t.Errorf("the pool is %s, and was %s", now.GetUID(), uid)
	}

	// The control: a pool with the mark of the Application, which a copy of the Sync's annotations would have.
	if err := a.hand.Patch(t.Context(), app.DeepCopy(), mergePatch(`{"spec":{"syncPolicy":{"automated":null}}}`)); err != nil {
		t.Fatal(err)
	}
	const tracking = "argocd.argoproj.io/tracking-id"
	a.patches(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, tracking, name+":karpenter.sh/NodePool:"+a.system+"/"+name))
	a.becomes(app, "OutOfSync", "")
	if pools, _ := a.poolsOf(app); len(pools) == 0 {
		t.Error("a pool with the Application's mark is none of its own")
	}
	a.patches(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, tracking))
	a.becomes(app, "Synced", "")

	const ignored = "resource.customizations.ignoreResourceUpdates.poolwright.dev_Sync"
	const runs = 20
	a.refresh(app, "hard") // What came before is no part of the count.
	with := a.refreshesBy(runs)
	a.configure(map[string]any{ignored: nil})
	a.refresh(app, "hard")
	without := a.refreshesBy(runs)
	t.Logf("%d runs of the Sync refresh the Application %d times, without our ignoreResourceUpdates %d times", runs, with, without)
	if with > 1 || without < runs/2 {
		t.Errorf("%d runs of the Sync refresh the Application %d times, without our ignoreResourceUpdates %d times", runs, with, without)
	}
}

// refreshesBy is how often Argo CD has compared the Application with Git while the Sync had some runs.
func (a *argoCD) refreshesBy(runs int) int {
	a.Helper()
	before := a.refreshes()
	for range runs {
		a.handled()
	}
	return a.refreshes() - before
}

// poolsOf are the NodePools and classes that an Application lists, has in its tree or calls orphaned, and all that it lists.
func (a *argoCD) poolsOf(app *unstructured.Unstructured) (pools, all []string) {
	a.Helper()
	var tree struct {
		Nodes, OrphanedNodes []struct{ Group, Kind, Name string }
	}
	a.eventually("Argo CD's API server responds", func() error {
		return a.call(http.MethodGet, "/applications/"+app.GetName()+"/resource-tree", nil, &tree)
	})
	for _, node := range append(tree.Nodes, tree.OrphanedNodes...) {
		if strings.HasPrefix(node.Group, "karpenter") {
			pools = append(pools, node.Kind+"/"+node.Name)
		}
	}
	for _, r := range a.state(app).Status.Resources {
		all = append(all, r.Kind+"/"+r.Name)
		if strings.HasPrefix(r.Group, "karpenter") {
			pools = append(pools, r.Kind+"/"+r.Name)
		}
	}
	return pools, all
}

// Applications with selfHeal and prune own a NodePool each, by an annotation and by a label, and the Sync declares another limit: it reports
// the owner, and writes nothing.
func TestInteropAPoolOfAnApplicationIsNotWritten(t *testing.T) {
	t.Parallel()
	skipWithoutInterop(t)
	a := newArgoCD(newSyncFixture(t, "interop-argocd-owner"))
	a.repo.write("config/own.yaml", a.configMap("own", "ours"))
	a.repo.write("config/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", a.apps))
	a.repo.commit("Begin")
	a.start()
	a.follow(every("1h"))
	a.ready()
	for _, mode := range []struct{ tracking, owner string }{
		{"annotation", "Argo CD application by-annotation"},
		{"label", "Argo CD application by-label"},
	} {
		name, pool := "by-"+mode.tracking, "owned-by-"+mode.tracking
		a.configure(map[string]any{"application.resourceTrackingMethod": mode.tracking})
		a.repo.write(name+"/pool.yaml", interopPool(pool, 100))
		a.repo.write(name+"/class.yaml", interopClass(pool))
		a.repo.commit("Have Argo CD own a pool")
		app := a.application(name, name, nil, automated())
		a.limited(pool, 100)
		a.eventually("the pool has the mark of Argo CD's way of tracking", func() error {
			a.refresh(app, "hard") // The setting may come after the Application.
			live := a.pool(pool)
			if _, labelled := live.GetLabels()["app.kubernetes.io/instance"]; labelled != (mode.tracking == "label") {
				return fmt.Errorf("the labels are %v", live.GetLabels())
			}
			return nil
		})
		a.becomes(app, "Synced", "")

		a.repo.write("config/pool.yaml", interopPool(pool, 200))
		a.repo.write("config/class.yaml", interopClass(pool))
		a.repo.commit("Declare it twice")
		a.handled()
		if message := a.waitForNotReady("ApplyFailed"); !strings.Contains(message, mode.owner) || !strings.Contains(message, ".spec.limits.cpu") {
			t.Errorf("%s: the Sync does not report the owner and the field: %s", mode.tracking, message)
		}
		a.refresh(app, "hard")
		a.becomes(app, "Synced", "")
		before := a.limited(pool, 100)
		for range 10 {
			a.handled()
			a.refresh(app, "normal")
		}
		if now := a.limited(pool, 100); now.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("%s: written since: %s is not %s", mode.tracking, now.GetResourceVersion(), before.GetResourceVersion())
		}
		// That selfHeal is at work, and that nobody else is.
		a.patches(pool, `{"spec":{"limits":{"cpu":"300"}}}`)
		a.limited(pool, 100)
		a.handled()
		a.limited(pool, 100)
		// What a run applies without force, the API server refuses.
		for _, e := range a.pool(pool).GetManagedFields() {
			if e.Manager == "poolwright" {
				t.Errorf("%s: Poolwright has written %s", mode.tracking, e.FieldsV1)
			}
		}
		a.becomes(app, "Synced", "")
	}
	a.holds("own", "ours")
}
