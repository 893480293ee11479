package deviceplugin

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestLimitsAreCountedInPhysicalGPUs(t *testing.T) {
	type m = map[string]any
	plugin := func(sharing m) []state.Item {
		pluginConfig := m{"name": "shared", "nodePools": []any{"gpu"}}
		maps.Copy(pluginConfig, sharing)
		return []state.Item{{Key: state.Key{Target: cluster, Group: v1alpha1.GroupVersion.Group, Kind: "DevicePlugin", Name: "default"}, Object: m{"spec": m{"configs": []any{pluginConfig}}}}}
	}
	slices := plugin(m{"timeSlicing": m{"replicas": int64(10)}})
	renamed := plugin(m{"timeSlicing": m{"replicas": int64(10), "renameByDefault": true}})
	for _, tt := range []struct {
		name         string
		plugins      []state.Item
		annotations  m
		limits, want m
	}{
		{"the annotation, before it is expanded", slices, m{v1alpha1.GPULimitAnnotation: "12"}, m{"cpu": "8"}, m{"cpu": "8", "nvidia.com/gpu": "12"}},
		{"the annotation, without any other limit", slices, m{v1alpha1.GPULimitAnnotation: "12"}, nil, m{"nvidia.com/gpu": "12"}},
		{"the annotation, after it was expanded", slices, m{v1alpha1.GPULimitAnnotation: "12"}, m{"nvidia.com/gpu": "120"}, m{"nvidia.com/gpu": "12"}},
		{"the annotation, after it was expanded to another name", renamed, m{v1alpha1.GPULimitAnnotation: "12"}, m{"nvidia.com/gpu.shared": "120"}, m{"nvidia.com/gpu": "12"}},
		{"the annotation, and the DevicePlugin is elsewhere", nil, m{v1alpha1.GPULimitAnnotation: "12"}, m{"nvidia.com/gpu": "120"}, m{"nvidia.com/gpu": "12"}},
		{"shares", slices, nil, m{"nvidia.com/gpu": "120"}, m{"nvidia.com/gpu": "12"}},
		{"shares as a number, of a GPU that is used in part", slices, nil, m{"nvidia.com/gpu": int64(121)}, m{"nvidia.com/gpu": "13"}},
		{"shares of another name", renamed, nil, m{"nvidia.com/gpu.shared": "120"}, m{"nvidia.com/gpu": "12"}},
		{"a resource that the configuration does not advertise", renamed, nil, m{"cpu": "8", "nvidia.com/gpu": "12"}, m{"cpu": "8"}},
		{"no limit of GPUs", slices, nil, m{"cpu": "8"}, m{"cpu": "8"}},
		{"a pool that no configuration serves", nil, nil, m{"nvidia.com/gpu": "12"}, m{"nvidia.com/gpu": "12"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := m{"metadata": m{"name": "gpu", "annotations": tt.annotations}, "spec": m{"limits": tt.limits}}
			pool := state.Item{Key: state.Key{Target: cluster, Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}, Object: object}
			before := state.Hash(object)
			got := PhysicalGPUs(append(tt.plugins, pool))
			if len(got) != 1 {
				t.Fatalf("got %d pools", len(got))
			}
			if d := cmp.Diff(tt.want, at(got[0].Object, "spec", "limits")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if state.Hash(object) != before {
				t.Error("the item was changed")
			}
		})
	}
}
