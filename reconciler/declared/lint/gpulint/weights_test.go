package gpulint

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
)

// TestTheWeightsAreThoseOfTheOverlaysThatAreMade keeps what is said of overlays true.
func TestTheWeightsAreThoseOfTheOverlaysThatAreMade(t *testing.T) {
	const plugin = "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: nvidia}\nspec: {image: plugin, version: v1.2.3, defaultConfig: rest, configs: [{name: sliced, nodePools: [gpu], timeSlicing: {replicas: 4}}, {name: rest}]}\n"
	d, err := declared.Load(fstest.MapFS{"app/plugin.yaml": {Data: []byte(plugin)}}, "app", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	expanded, problems := deviceplugin.Expand(d.Set)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := map[int64]bool{}
	for _, item := range expanded.Items() {
		var o nodeOverlay
		if item.Key.Kind != "NodeOverlay" {
			continue
		}
		if !read(item.Object, &o) {
			t.Fatalf("%s cannot be read", item.Key)
		}
		got[o.Spec.Weight] = true
	}
	if diff := cmp.Diff(map[int64]bool{namedWeight: true, defaultWeight: true}, got); diff != "" {
		t.Errorf("weights (-said +made):\n%s", diff)
	}
}
