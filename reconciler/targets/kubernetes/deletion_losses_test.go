package kubernetes_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestWithItsClusterTheEngineLeavesItsNodes(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
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
