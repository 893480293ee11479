package deviceplugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

func FuzzExpand(f *testing.F) {
	for _, name := range goldens() {
		text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			f.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			raw, err := yaml.YAMLToJSON([]byte(doc))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw, []byte(`{"metadata":{"annotations":{"poolwright.dev/gpu-limit":"4"}},"spec":{"limits":{"cpu":1}}}`))
		}
	}
	f.Add([]byte(`{"spec":{"configurations":[{"name":"a","nodePools":[1]}]}}`), []byte(`{"metadata":{"annotations":{"poolwright.dev/gpu-limit":4}},"spec":[]}`))
	f.Add([]byte(`{"spec":{"defaultConfig":"a","configurations":[{"name":"a"}],"resources":{"limits":{"cpu":"1e999"}}}}`), []byte(`{"spec":{"template":{"spec":{"nodeClassRef":7}}}}`))
	f.Fuzz(func(t *testing.T, plugin, pool []byte) {
		declared := state.NewSet(
			hostile("poolwright.dev", "DevicePlugin", "nvidia", plugin), hostile("karpenter.sh", "NodePool", "gpu", pool),
			hostile("karpenter.k8s.aws", "EC2NodeClass", "gpu", pool), hostile("karpenter.k8s.aws", "EC2NodeClass", "more", plugin),
		)
		out, problems := deviceplugin.Expand(declared)
		if !deviceplugin.NeedsExpansion(declared.Items()) {
			t.Fatal("a DevicePlugin concerns nobody")
		}
		for _, p := range problems {
			if p.Origin == (state.Origin{}) || p.Message == "" {
				t.Errorf("a problem without a place or words: %q", p)
			}
		}
		_, kept := out.Get(state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "DevicePlugin", Name: "nvidia"})
		for _, item := range out.Items() {
			if _, was := declared.Get(item.Key); was {
				continue
			}
			if !kept {
				t.Errorf("%s is made of a DevicePlugin that is refused", item.Key)
			}
			if err := sound(item); err != nil {
				t.Errorf("%s: %v", item.Key, err)
			}
		}
	})
}

// hostile is an item of whatever object.
func hostile(group, kind, name string, raw []byte) state.Item {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		object = nil
	}
	return state.Item{
		Key: state.Key{Target: "kubernetes", Group: group, Kind: kind, Name: name}, Version: "v1", Object: object,
		Origin: state.Origin{File: kind, Line: 1},
	}
}

// sound reports what is wrong with an item that was made.
func sound(item state.Item) error {
	metadata, _ := item.Object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	switch {
	case metadata["name"] != item.Key.Name || namespace != item.Key.Namespace || item.Object["kind"] != item.Key.Kind:
		return fmt.Errorf("the object says %v", metadata)
	case len(validation.IsDNS1123Subdomain(item.Key.Name)) > 0 || item.Key.Kind != "NodeOverlay" && len(item.Key.Name) > validation.LabelValueMaxLength:
		return fmt.Errorf("this is no name")
	case item.Origin.File != "DevicePlugin" || item.Version == "" || item.Key.Target != "kubernetes":
		return fmt.Errorf("it comes from %v in version %q", item.Origin, item.Version)
	}
	raw, err := json.Marshal(item.Object)
	if err != nil {
		return err
	}
	var again map[string]any
	if err := json.Unmarshal(raw, &again); err != nil {
		return err
	}
	if !state.Equal(item.Object, again) {
		return errors.New("it is not canonical")
	}
	return nil
}

// BenchmarkNothingToExpand is what every comparison of a repository without GPUs
// pays.
func BenchmarkNothingToExpand(b *testing.B) {
	var items []state.Item
	for i := range 2000 {
		items = append(items, hostile("", "ConfigMap", fmt.Sprint("o", i), []byte(`{}`)))
	}
	items = state.NewSet(items...).Items()
	b.ReportAllocs()
	for b.Loop() {
		if deviceplugin.NeedsExpansion(items) {
			b.Fatal("there is nothing to expand")
		}
	}
}
