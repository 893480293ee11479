package gpulint_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
)

// FuzzCheck reads objects of any form: whatever they hold, a finding has an
// object, a place and something to say.
func FuzzCheck(f *testing.F) {
	samples, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(samples) == 0 {
		f.Fatal("no samples: ", err)
	}
	for _, sample := range samples {
		content, err := os.ReadFile(sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, hostile := range []string{
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: [1]\n",
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p, annotations: {poolwright.dev/gpu-limit: \"-1e99\"}}\nspec: {limits: {cpu: 1e308, nvidia.com/gpu: -3, nodes: .5, memory: {}}, weight: -9223372036854775808}\n",
		"apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: n}\nspec: {defaultConfig: a, configs: [{name: a, timeSlicing: {replicas: -2147483648}}]}\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {limits: {nvidia.com/gpu: 3}}\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: n}\nspec: {replicas: 9223372036854775807, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1, cpu: -5, memory: 1e999}}}]}}}\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\n",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: n}\nspec: {parallelism: -7, completions: null, template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}}}\n",
	} {
		f.Add([]byte(hostile))
	}
	all, err := catalog.Load()
	if err != nil {
		f.Fatal(err)
	}
	// Few types keep it fast.
	types, err := all.Subset("g4dn", "g5", "m5", "p5")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := declared.Load(fstest.MapFS{"app/objects.yaml": {Data: content}}, "app", declared.Options{})
		if err != nil {
			return
		}
		for _, found := range gpulint.Check(d, types) {
			if found.Key.Name == "" || found.Origin.File == "" || found.Origin.Line == 0 || found.Text == "" {
				t.Errorf("a finding of nothing or nowhere: %+v", found)
			}
		}
	})
}
