package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAMissingInstallationIsSaidOnce(t *testing.T) {
	b := newBench(t)
	// Its file comes first: the tests of data_test.go install the Sync's definition.
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
