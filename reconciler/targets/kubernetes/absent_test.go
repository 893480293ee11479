package kubernetes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestAMissingInstallationIsReportedOnce(t *testing.T) {
	b := newBench(t)
	// Other tests install the definition, in any order.
	definition := envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}
	if err := envtest.UninstallCRDs(server, definition); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		err := b.hand.List(t.Context(), &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "poolwright.dev/v1alpha1", "kind": "SyncList"}})
		return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
	})
	got := b.problems(b.declare(`
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: a, namespace: $NS}
---
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: b, namespace: $NS}
`))
	want := []string{"file0.yaml:1: Poolwright is not installed in this cluster: run `poolwright bootstrap DIR`, which brings these kinds: Sync.poolwright.dev"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
