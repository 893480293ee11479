package gpulint_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
)

// BenchmarkCheck reads a large repository in one file: 100 GPU pools with a
// finding each, and 500 workloads that can run in all of them.
func BenchmarkCheck(b *testing.B) {
	var content strings.Builder
	for i := range 100 {
		fmt.Fprintf(&content, "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p%d}\nspec:\n  limits: {gpu: 30}\n  template:\n    spec:\n      requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [g, p]}]\n      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n---\n", i)
	}
	for i := range 500 {
		fmt.Fprintf(&content, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d%d, namespace: ml}\nspec:\n  replicas: 4\n  template:\n    spec:\n      tolerations: [{operator: Exists}]\n      containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: 1}}}]\n---\n", i)
	}
	d, err := declared.Load(fstest.MapFS{"app/objects.yaml": {Data: []byte(content.String())}}, "app", declared.Options{})
	if err != nil {
		b.Fatal(err)
	}
	c := types(b)
	for b.Loop() {
		if found := gpulint.Check(d, c); len(found) != 101 {
			b.Fatalf("%d findings", len(found))
		}
	}
}
