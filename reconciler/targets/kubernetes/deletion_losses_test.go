package kubernetes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestWithItsClusterTheEngineLeavesItsNodes(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.noClusters()
	cluster := func(name string) string {
		return `
apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: ` + name + `}
spec: {name: c, region: eu-west-1, account: "111122223333", engine: {mode: Embedded}}
`
	}
	b.reconcile(b.declare(cluster("cluster")))
	impact := func() string {
		b.TB.Helper()
		p, err := b.giveUp()
		if err != nil || len(p.Changes) != 1 {
			t.Fatal(err, b.lines(p))
		}
		return p.Changes[0].Before.Impact
	}
	claims := func() int {
		b.TB.Helper()
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
		if err := b.hand.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if got := impact(); claims() == 0 && got != "" {
		t.Errorf("without nodes nothing dies, and it says %q", got)
	}
	for i := range 2 {
		b.make(fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: left-%d-$NS}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
`, i), "kubectl-create")
	}
	if got, want := impact(), fmt.Sprintf("the engine stops: %d NodeClaims keep running unmanaged", claims()); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	renamed := b.plan(b.declare(cluster("renamed")))
	deleted := slices.IndexFunc(renamed.Changes, func(c plan.Change) bool { return c.Action == plan.Delete })
	if deleted < 0 {
		t.Fatal(b.lines(renamed))
	}
	if got, want := renamed.Changes[deleted].Before.Impact, fmt.Sprintf("the engine and AWS follow Cluster renamed from then on, with %d NodeClaims", claims()); got != want {
		t.Errorf("a Cluster that is created takes over, and it says %q, want %q", got, want)
	}
	// Of Clusters of one second the first by name is the oldest.
	byHand := func(name string) (remove func()) {
		b.TB.Helper()
		b.make(cluster(name), "kubectl-create")
		return func() {
			if err := b.hand.Delete(context.WithoutCancel(t.Context()), b.get("poolwright.dev/v1alpha1", "Cluster", name)); err != nil {
				t.Error(err)
			}
		}
	}
	remove := byHand("next")
	if got, want := impact(), fmt.Sprintf("the engine and AWS follow Cluster next from then on, with %d NodeClaims", claims()); got != want {
		t.Errorf("another Cluster takes over, and it says %q, want %q", got, want)
	}
	remove()
	b.reconcile(b.declare(cluster("cluster"), cluster("next")))
	p, err := b.giveUp()
	if err != nil || len(p.Changes) != 2 {
		t.Fatal(err, b.lines(p))
	}
	for _, c := range p.Changes {
		if got, want := c.Before.Impact, fmt.Sprintf("the engine stops: %d NodeClaims keep running unmanaged", claims()); got != want {
			t.Errorf("with both Clusters, of %s it says %q, want %q", c.Key.Name, got, want)
		}
	}
	b.reconcile(b.declare())
	defer byHand("a-first")()
	b.reconcile(b.declare(cluster("cluster")))
	if got := impact(); got != "" {
		t.Errorf("an older Cluster decides and stays, and of the other it says %q", got)
	}
	b.reconcile(b.declare())
}

func TestAClusterIsDeletedAfterWhatOnlyItsEngineCanDelete(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.noClusters()
	cluster := func(name, mode string) string {
		return `
apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: ` + name + `}
spec: {name: c, region: eu-west-1, account: "111122223333", engine: {mode: ` + mode + `}}
`
	}
	// A NodeClaim in deletion, as Karpenter's finalizer keeps it until its instance is gone.
	b.make(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: drains-$NS, finalizers: [karpenter.sh/termination]}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
`, "kubectl-create")
	name := "drains-" + b.ns
	gone := func() {
		b.edit("karpenter.sh/v1", "NodeClaim", name, func(o map[string]any) {
			delete(o["metadata"].(map[string]any), "finalizers")
		})
	}
	if err := b.hand.Delete(t.Context(), b.get("karpenter.sh/v1", "NodeClaim", name)); err != nil {
		t.Fatal(err)
	}
	deletion := func() error {
		b.TB.Helper()
		errs := b.apply(b.plan(b.declare()))
		for _, err := range errs {
			return err
		}
		return nil
	}
	exists := func(name string) bool {
		b.TB.Helper()
		_, err := b.find("poolwright.dev/v1alpha1", "Cluster", name)
		return err == nil
	}

	b.reconcile(b.declare(cluster("external", "External")))
	if err := deletion(); err != nil || exists("external") {
		t.Errorf("a Cluster whose engine is another's waits: %v", err)
	}
	b.reconcile(b.declare(cluster("cluster", "Embedded")))
	if err := deletion(); reasonOf(err) != "EngineNeeded" || !exists("cluster") {
		t.Errorf("the engine stopped before the NodeClaim was gone: %v", err)
	}
	b.reconcile(b.declare(cluster("cluster", "Embedded"), cluster("next", "Embedded")))
	b.reconcile(b.declare(cluster("next", "Embedded")))
	if exists("cluster") {
		t.Error("a Cluster waits although the next one keeps the engine at work")
	}
	gone()
	b.reconcile(b.declare())
	if exists("next") {
		t.Error("the Cluster waits although nothing is left to be deleted")
	}
}

// A pool whose deletion fails or is refused is asked for again, and its nodes go with the engine's help.
func TestAClusterWaitsForWhatTheEngineHasToDeleteNext(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	for kind, manifest := range map[string]string{
		"NodePool": `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: waits-$NS}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
`,
		"NodeClaim": strings.Replace(claim, "name: claim-$NS", "name: waits-$NS", 1),
		"EC2NodeClass": `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: waits-$NS}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
`,
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			b.noClusters()
			b.reconcile(b.declare(clusterOf("cluster", "Embedded"), manifest))
			p := b.plan(b.declare())
			if err := b.target.Begin(t.Context(), p.Changes); err != nil {
				t.Fatal(err)
			}
			var cluster, other plan.Change
			for _, c := range p.Changes {
				if c.Key.Kind == "Cluster" {
					cluster = c
				} else {
					other = c
				}
			}
			if got := reasonOf(b.target.Apply(t.Context(), cluster)); got != "EngineNeeded" {
				t.Errorf("the deletion of the %s was begun and not made, and that of the Cluster returned %q", kind, got)
			}
			for _, c := range []plan.Change{other, cluster} {
				if err := b.target.Apply(t.Context(), c); err != nil {
					t.Errorf("deleting %s in their order: %v", c.Key, err)
				}
			}
		})
	}
}

// reasonOf is the reason of a failure, empty without one.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	_, reason, _ := state.Classify(err)
	return reason
}
