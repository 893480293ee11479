package kubernetes_test

import (
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
	b.reconcile(b.declare(`
apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster}
spec: {name: c, region: eu-west-1, account: "111122223333", engine: {mode: Embedded}}
`))
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
	b.reconcile(b.declare())
}
