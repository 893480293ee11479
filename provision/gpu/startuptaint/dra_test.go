package startuptaint_test

import (
	"context"
	"errors"
	"testing"
	"unique"

	"github.com/aws/karpenter-provider-aws/pkg/providers/drametadata"
	"github.com/aws/karpenter-provider-aws/pkg/providers/nvidiadra"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

// Only where the DRA driver runs is a GPU a device of it: a node launched for a claim would wait without end for a
// ResourceSlice, and a GPU that the device plugin advertises would be counted twice. What serves a pool that cannot be read
// publishes nothing.
func TestOnlyPoolsOfTheDRADriverHaveItsDevices(t *testing.T) {
	const efa = "dra.net"
	devices := func(driver string) ([]*cloudprovider.ResourceSliceTemplate, []*cloudprovider.AttributeBinding) {
		handle := unique.Make(driver)
		return []*cloudprovider.ResourceSliceTemplate{{Driver: handle}},
			[]*cloudprovider.AttributeBinding{{Devices: []cloudprovider.DeviceID{{Driver: handle}}}}
	}
	inner := &cloud{types: machines()}
	for _, driver := range []string{nvidiadra.DriverName, efa} {
		of := &inner.types[1].DynamicResources
		templates, bindings := devices(driver)
		of.ResourceSliceTemplates, of.AttributeBindings = append(of.ResourceSliceTemplates, templates...), append(of.AttributeBindings, bindings...)
	}
	inner.types[1].VolumeAttachmentLimits = map[string]int{"ebs.csi.aws.com": 27}
	declared := gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{
		{Name: "sliced", Pools: []string{"plugin"}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10},
		{Name: "dra", Pools: []string{"driver"}, Strategy: gpu.StrategyDRA},
	}}
	var failed error
	provider := startuptaint.Decorate(startuptaint.Config{
		Sharing: func(context.Context) (gpu.Sharing, error) { return declared, failed },
		Backoff: startuptaint.NewFailureBackoff(clock.RealClock{}), Reader: kube(t),
	})(inner)
	for name, want := range map[string][]string{
		"plugin": {efa}, "driver": {nvidiadra.DriverName, efa}, "of nobody": {efa}, "unread": {efa},
	} {
		if name == "unread" {
			failed = errors.New("no connection")
		} else {
			failed = nil
		}
		types, err := provider.GetInstanceTypes(t.Context(), pool(name))
		if err != nil {
			t.Fatal(err)
		}
		var templates, bindings []string
		for _, template := range types[1].DynamicResources.ResourceSliceTemplates {
			templates = append(templates, template.Driver.Value())
		}
		for _, b := range types[1].DynamicResources.AttributeBindings {
			bindings = append(bindings, b.Devices[0].Driver.Value())
		}
		if diff := cmp.Diff([][]string{want, want}, [][]string{templates, bindings}); diff != "" {
			t.Errorf("pool %s has templates and bindings of other drivers (-want +got):\n%s", name, diff)
		}
		if types[1].VolumeAttachmentLimits["ebs.csi.aws.com"] != 27 || len(types[1].Offerings) != 4 {
			t.Errorf("pool %s: the copy lost something: %+v", name, types[1])
		}
	}
	if got := len(inner.types[1].DynamicResources.ResourceSliceTemplates); got != 2 {
		t.Errorf("Karpenter's own list was changed: it has %d templates", got)
	}
}

// What Karpenter expects of an instance type for claims are the GPUs that EC2 counts. It counts none where a node has a
// fraction of one, as in g6f: a node that is launched for a claim there would wait without end.
func TestKarpenterExpectsTheGPUsThatEC2Counts(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range types.Types() {
		if of.GPU.Manufacturer != "NVIDIA" {
			continue
		}
		expected := 0
		if metadata, ok := drametadata.GPUMetadataByInstanceType[of.Name]; ok {
			expected = len(metadata.Devices)
		}
		if expected != of.GPU.Count {
			t.Errorf("%s has %d GPUs, and Karpenter expects %d", of.Name, of.GPU.Count, expected)
		}
	}
}

// Nodes of the DRA driver have no plugin to wait for: the taint would never be removed.
func TestANodeOfTheDRADriverIsNotTainted(t *testing.T) {
	declared := gpu.Sharing{Name: "nvidia", Default: "dra", Configs: []gpu.PluginConfig{{Name: "dra", Strategy: gpu.StrategyDRA}}}
	inner := &cloud{types: machines(), created: claim("driver", "one")}
	provider := startuptaint.Decorate(startuptaint.Config{
		Sharing: func(context.Context) (gpu.Sharing, error) { return declared, nil },
		Backoff: startuptaint.NewFailureBackoff(clock.RealClock{}), Reader: kube(t, pool("driver")),
	})(inner)
	if _, err := provider.Create(t.Context(), claim("driver", "one")); err != nil {
		t.Fatal(err)
	}
	for _, taint := range inner.launched.Spec.StartupTaints {
		if taint.Key == gpu.StartupTaint {
			t.Errorf("the node starts with %s", taint.Key)
		}
	}
}

// No node of the DRA driver is replaced for its readiness, so that what a pool has failed is of an earlier device plugin.
func TestAPoolOfTheDRADriverIsNeverHeldBack(t *testing.T) {
	inner := &cloud{types: machines()}
	for _, it := range inner.types[1:] {
		delete(it.Capacity, gpu.Resource)
		delete(it.Capacity, gpu.SharedResource)
		it.DynamicResources.ResourceSliceTemplates = []*cloudprovider.ResourceSliceTemplate{{Driver: unique.Make(nvidiadra.DriverName)}}
	}
	provider, book := decorate(t, inner, func(context.Context) (gpu.Sharing, error) {
		return gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{{Name: "dra", Pools: []string{"driver"}, Strategy: gpu.StrategyDRA}}}, nil
	})
	available := func() []string {
		t.Helper()
		types, err := provider.GetInstanceTypes(t.Context(), pool("driver"))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, it := range types {
			if len(it.Offerings.Available()) > 0 {
				out = append(out, it.Name)
			}
		}
		return out
	}
	for range 2 {
		book.Failed("driver", "NoDriver")
	}
	if diff := cmp.Diff([]string{"plain", "one", "shared"}, available()); diff != "" {
		t.Error(diff)
	}
}
