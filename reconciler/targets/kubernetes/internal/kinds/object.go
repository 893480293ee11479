package kinds

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Target is the Target in the keys of a cluster's objects.
const Target = state.TargetKubernetes

// Key is the key of a live object of the kind.
func (k Kind) Key(live metav1.Object) state.Key {
	return state.Key{Target: Target, Group: k.Group, Kind: k.GroupVersionKind.Kind, Namespace: live.GetNamespace(), Name: live.GetName()}
}

// GVK is the kind of the object with a key, in a version.
func GVK(k state.Key, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Kind}
}

// IsSecret reports whether an object is a Secret.
func IsSecret(k state.Key) bool { return k.Group == "" && k.Kind == "Secret" }

// IsDevicePlugin reports whether an object is a DevicePlugin of Poolwright.
func IsDevicePlugin(k state.Key) bool {
	return k.Target == Target && k.Group == v1alpha1.GroupVersion.Group && k.Kind == "DevicePlugin"
}

// PluginConfig is the GPU configuration that an object was made for; empty for all others.
func PluginConfig(object map[string]any) string {
	text, _, _ := unstructured.NestedString(object, "metadata", "labels", gpu.ConfigLabel)
	return text
}

// DRAConfig is the GPU configuration that an object of the DRA driver was made for, empty for what all share; false
// for all other objects.
func DRAConfig(object map[string]any) (string, bool) {
	text, ours, _ := unstructured.NestedString(object, "metadata", "labels", gpu.DRAConfigLabel)
	return text, ours
}

// ServesGPUs reports whether an object was made for GPU configurations, by the device plugin or by the DRA driver.
func ServesGPUs(object map[string]any) bool {
	_, dra := DRAConfig(object)
	return dra || PluginConfig(object) != ""
}

// ObjectWave is an object's place in the order of work: that of its kind, unless it was made
// for a GPU configuration.
func ObjectWave(k state.Key, object map[string]any) int {
	if ServesGPUs(object) {
		return PluginWave(k.Group, k.Kind)
	}
	return Wave(k.Group, k.Kind)
}
