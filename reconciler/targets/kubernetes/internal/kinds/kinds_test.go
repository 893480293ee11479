package kinds

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// served answers discovery from memory.
type served struct {
	discovery.DiscoveryInterfaceWithContext
	lists []*metav1.APIResourceList
	err   error
}

func (s served) ServerGroupsAndResourcesWithContext(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, s.lists, s.err
}

func resource(kind, plural string, namespaced bool) metav1.APIResource {
	return metav1.APIResource{Kind: kind, Name: plural, Namespaced: namespaced, Verbs: []string{"list", "patch", "delete"}}
}

func TestHalfAResponseIsNotAbsence(t *testing.T) {
	down := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1"}
	c := NewRESTMapper(served{
		lists: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{resource("ConfigMap", "configmaps", true)}}},
		err:   &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{down: errors.New("down")}},
	})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		gvk  schema.GroupVersionKind
		ok   bool
		err  bool
	}{
		{"a served kind is found", schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, true, false},
		{"a kind of a group that responds is unknown", schema.GroupVersionKind{Version: "v1", Kind: "Gadget"}, false, false},
		{"a kind of a group that does not respond is an error", down.WithKind("NodeMetrics"), false, true},
		{"so is another version of it", schema.GroupVersionKind{Group: down.Group, Version: "v2", Kind: "NodeMetrics"}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, ok, err := c.FindAny(tt.gvk)
			if ok != tt.ok || (err != nil) != tt.err {
				t.Errorf("found %v, error %v", ok, err)
			}
		})
	}
}

func TestPromisedKindsComeFromTheirDefinition(t *testing.T) {
	c := NewRESTMapper(served{})
	c.SetDeclared([]map[string]any{{"spec": map[string]any{
		"group": "example.com", "scope": "Cluster", "names": map[string]any{"kind": "Widget", "plural": "widgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v1alpha1", "served": false}},
	}}})
	got, ok, err := c.Find(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	want := Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets", Manageable: true, DeclaredOnly: true}
	if d := cmp.Diff(want, got); d != "" || !ok || err != nil {
		t.Errorf("%v %v %s", ok, err, d)
	}
	if d := cmp.Diff([]string{"v1"}, c.Versions("example.com", "Widget")); d != "" {
		t.Error(d)
	}
}

func TestAllPrefersTheStableVersion(t *testing.T) {
	c := NewRESTMapper(served{lists: []*metav1.APIResourceList{
		{GroupVersion: "karpenter.sh/v1beta1", APIResources: []metav1.APIResource{resource("NodePool", "nodepools", false)}},
		{GroupVersion: "karpenter.sh/v1", APIResources: []metav1.APIResource{resource("NodePool", "nodepools", false), {Name: "nodepools/status", Kind: "NodePool"}}},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Kind: "Binding", Name: "bindings", Verbs: []string{"create"}}}},
	}})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := c.All()
	if len(all) != 1 || all[0].Version != "v1" {
		t.Errorf("%v", all)
	}
}

func TestWavesPutFirstWhatOthersNeed(t *testing.T) {
	order := [][2]string{
		{"", "Namespace"}, {"apiextensions.k8s.io", "CustomResourceDefinition"},
		{"poolwright.dev", "Cluster"}, {"karpenter.k8s.aws", "EC2NodeClass"}, {"scheduling.k8s.io", "PriorityClass"}, {"", "ServiceAccount"},
		{"poolwright.dev", "DevicePlugin"}, {"karpenter.sh", "NodeOverlay"},
		{"karpenter.sh", "NodePool"}, {"apps", "Deployment"}, {"other.example.com", "Cluster"}, {"other.example.com", "NodeOverlay"},
		{"admissionregistration.k8s.io", "ValidatingWebhookConfiguration"},
	}
	want := []int{0, 0, 1, 1, 1, 1, 3, 4, 5, 5, 5, 5, 6}
	for i, k := range order {
		if got := Wave(k[0], k[1]); got != want[i] {
			t.Errorf("%v is in wave %d, want %d", k, got, want[i])
		}
	}
}

func TestAnOverlayGivesUpRoomBeforeThePluginTakesItAway(t *testing.T) {
	plugin, overlay := PluginWave("apps", "DaemonSet"), Wave("karpenter.sh", "NodeOverlay")
	shrink := WaveOnDecrease("karpenter.sh", "NodeOverlay")
	if shrink == nil || shrink.Wave >= plugin || plugin >= overlay || overlay >= Wave("karpenter.sh", "NodePool") {
		t.Errorf("shrink %v, plugin %d, overlay %d", shrink, plugin, overlay)
	}
	if config := PluginWave("", "ConfigMap"); config >= plugin {
		t.Errorf("the configuration comes in wave %d, the pods that mount it in %d", config, plugin)
	}
	if PluginWave("karpenter.sh", "NodeOverlay") != overlay || WaveOnDecrease("karpenter.sh", "NodePool") != nil || WaveOnDecrease("example.com", "NodeOverlay") != nil {
		t.Error("other kinds have another place")
	}
}
