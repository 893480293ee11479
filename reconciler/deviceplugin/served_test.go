package deviceplugin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// pluginOf is a DevicePlugin with a spec.
func pluginOf(spec string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: nvidia}\nspec: " + spec
}

func TestAPoolThatGetsOrLosesTheDRADriverIsFoundByEitherDevicePlugin(t *testing.T) {
	const (
		plugin  = `{configs: [{name: a, nodePools: [x]}, {name: b, nodePools: [z], mps: {replicas: 2}}]}`
		rest    = `{defaultConfig: a, configs: [{name: a}, {name: b, nodePools: [z], draDriver: {}}]}`
		restDRA = `{defaultConfig: b, configs: [{name: a, nodePools: [z]}, {name: b, draDriver: {}}]}`
	)
	for name, c := range map[string]struct {
		live, declared string
		want           []string
	}{
		"the same":                            {plugin, plugin, nil},
		"another strategy of the plugin":      {plugin, `{configs: [{name: a, nodePools: [x], timeSlicing: {replicas: 2}}, {name: b, nodePools: [z]}]}`, nil},
		"a configuration gets draDriver":      {plugin, `{configs: [{name: a, nodePools: [x], draDriver: {}}, {name: b, nodePools: [z]}]}`, []string{"x"}},
		"a configuration loses draDriver":     {`{configs: [{name: a, nodePools: [x], draDriver: {}}]}`, `{configs: [{name: a, nodePools: [x]}]}`, []string{"x"}},
		"under another name":                  {plugin, `{configs: [{name: c, nodePools: [x], draDriver: {}}, {name: b, nodePools: [z]}]}`, []string{"x"}},
		"a pool moves":                        {rest, `{defaultConfig: a, configs: [{name: a}, {name: b, nodePools: [x, z], draDriver: {}}]}`, []string{"x"}},
		"a pool moves back":                   {rest, `{defaultConfig: a, configs: [{name: a, nodePools: [z]}, {name: b, nodePools: [q], draDriver: {}}]}`, []string{"z"}},
		"another default":                     {rest, `{defaultConfig: b, configs: [{name: a, nodePools: [x]}, {name: b, draDriver: {}, nodePools: [z]}]}`, []string{"other"}},
		"a pool is dropped under the default": {restDRA, `{defaultConfig: b, configs: [{name: a, nodePools: [q]}, {name: b, draDriver: {}}]}`, []string{"z"}},
		"a pool without a configuration":      {`{configs: [{name: b, nodePools: [z]}]}`, `{configs: [{name: b, nodePools: [z]}, {name: a, nodePools: [x], draDriver: {}}]}`, []string{"x"}},
		"the driver's pool is dropped":        {rest, `{configs: [{name: b, nodePools: [x]}]}`, []string{"z"}},
		"the driver under another name":       {rest, `{defaultConfig: a, configs: [{name: a}, {name: c, nodePools: [z], draDriver: {version: v0.4.0}}]}`, nil},
		"the first DevicePlugin":              {"", rest, []string{"z"}},
		"the first one without the driver":    {"", plugin, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var live gpu.Sharing
			if c.live != "" {
				live = sharing(t, c.live)
			}
			if d := cmp.Diff(c.want, deviceplugin.DRAChanges(live, sharing(t, c.declared), []string{"other", "x", "z"}), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

// A pool's GPUs are partitioned while it has no nodes, and only then: whoever else serves it, and whatever else changes.
func TestAPoolWhosePartitionsChangeIsFoundByEitherDevicePlugin(t *testing.T) {
	const mig = `{configs: [{name: a, nodePools: [x], mig: {devices: {1g.10gb: 7}}}, {name: b, nodePools: [z], mps: {replicas: 2}}]}`
	for name, c := range map[string]struct {
		live, declared string
		want           []string
	}{
		"the same":              {mig, mig, nil},
		"another name":          {mig, strings.Replace(mig, "name: a", "name: c", 1), nil},
		"another version":       {mig, strings.Replace(mig, "7}", "7}, version: v0.14.5", 1), nil},
		"another number":        {mig, strings.Replace(mig, "7}", "6}", 1), []string{"x"}},
		"another profile":       {mig, strings.Replace(mig, "1g.10gb: 7", "1g.20gb: 4", 1), []string{"x"}},
		"another resource name": {mig, strings.Replace(mig, "7}", "7}, strategy: single", 1), []string{"x"}},
		"whole GPUs":            {mig, `{configs: [{name: a, nodePools: [x, z]}]}`, []string{"x"}},
		"nothing serves it":     {mig, `{configs: [{name: b, nodePools: [z]}]}`, []string{"x"}},
		"it moves":              {mig, `{configs: [{name: a, nodePools: [x, z], mig: {devices: {1g.10gb: 7}}}]}`, []string{"z"}},
		"from the DRA driver":   {`{configs: [{name: a, nodePools: [x], draDriver: {}}]}`, mig, []string{"x"}},
		"the first":             {"", mig, []string{"x"}},
	} {
		var live gpu.Sharing
		if c.live != "" {
			live = sharing(t, c.live)
		}
		declared := sharing(t, c.declared)
		if d := cmp.Diff(c.want, deviceplugin.MIGChanges(live, declared, []string{"other", "x", "z"}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if partitions := strings.Contains(c.declared, "mig:"); deviceplugin.HasMIG(declared) != partitions {
			t.Errorf("%s: it partitions: %t", name, partitions)
		}
	}
}

func sharing(t testing.TB, spec string) gpu.Sharing {
	t.Helper()
	out, ok := deviceplugin.DeclaredSharing(read(t, pluginOf(spec)).Items())
	if !ok {
		t.Fatalf("it is refused: %s", spec)
	}
	return out
}

func TestOfAWrongDevicePluginNothingIsDeclared(t *testing.T) {
	for name, text := range map[string]string{
		"none":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}",
		"a wrong":    pluginOf(`{configs: []}`),
		"a second":   pluginOf(`{configs: [{name: a, nodePools: [x]}]}`) + "\n---\napiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: other}\nspec: {configs: [{name: a, nodePools: [x]}]}",
		"unreadable": pluginOf(`{configs: 7}`),
	} {
		if got, ok := deviceplugin.DeclaredSharing(read(t, text).Items()); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What decides whether the cluster's DevicePlugin is read has to be among what is made.
func TestTheDRADriversAccountIsMadeWithTheDriverAlone(t *testing.T) {
	for _, name := range []string{"dra-driver", "whole"} {
		set := expand(t, file(t, name))
		declared, ok := deviceplugin.DeclaredSharing(file(t, name).Items())
		if !ok {
			t.Fatal(name)
		}
		if _, made := set.Get(deviceplugin.DRAAccount()); made != deviceplugin.HasDRADriver(declared) || made != (name == "dra-driver") {
			t.Errorf("%s: the account is made: %t", name, made)
		}
	}
}

// Nothing of a DevicePlugin is made that puts the driver beside Bottlerocket's device plugin, and each pool is reported
// with its own configuration.
func TestTheDRADriverIsNotMadeBesideBottlerocketsPlugin(t *testing.T) {
	const pool = "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: NAME}\nspec: {template: {spec: {nodeClassRef: {name: b}}}}"
	text := pluginOf(`{configs: [{name: a, nodePools: [x], draDriver: {}}, {name: b, nodePools: [z], draDriver: {}}, {name: c, nodePools: [q]}]}`)
	for _, name := range []string{"x", "z", "q"} {
		text += strings.Replace(pool, "NAME", name, 1)
	}
	out, problems := deviceplugin.Expand(read(t, text+"\n---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: b}\nspec: {amiFamily: Bottlerocket}"))
	configs := map[any]any{}
	for _, p := range problems {
		facts := p.Facts.Map()
		configs[facts["nodePool"]] = facts["config"]
		if p.Code != "DRADriverOnBottlerocket" || p.Origin != (state.Origin{File: "gpu.yaml", Line: 1}) {
			t.Errorf("%s", p)
		}
	}
	if d := cmp.Diff(map[any]any{"x": "a", "z": "b"}, configs); d != "" || len(problems) != 2 {
		t.Errorf("%d problems: %s", len(problems), d)
	}
	for _, item := range out.Items() {
		if item.Key.Kind != "NodePool" && item.Key.Kind != "EC2NodeClass" {
			t.Errorf("there is %s", item.Key)
		}
	}
}

// An EC2NodeClass by which Karpenter places several claims on a GPU stays as it is in the cluster, with the driver; one
// that shares nothing, or of which no pool has the driver, is applied.
func TestAClassThatSharesDevicesOfTheDRADriverIsNotApplied(t *testing.T) {
	class := func(annotation string) string {
		return "\n---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: b, annotations: {karpenter.k8s.aws/nvidia-consumable-capacity: " + annotation + "}}\nspec: {}"
	}
	pool := func(name, class string) string {
		return "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: " + name + "}\nspec: {template: {spec: {nodeClassRef: " + class + "}}}"
	}
	for name, c := range map[string]struct {
		text     string
		problems int
		applied  bool
	}{
		"shares":                         {draPlugin + pool("gpu", "{name: b}") + class(`"4"`), 1, false},
		"fractions of the memory":        {draPlugin + pool("gpu", "{name: b}") + class("memory"), 1, false},
		"switched off":                   {draPlugin + pool("gpu", "{name: b}") + class("disabled"), 0, true},
		"what Karpenter cannot read":     {draPlugin + pool("gpu", "{name: b}") + class("often"), 0, true},
		"without a driver":               {whole + pool("gpu", "{name: b}") + class(`"4"`), 0, true},
		"of a pool without the driver":   {draPlugin + pool("other", "{name: b}") + class(`"4"`), 0, true},
		"of no pool":                     {draPlugin + pool("gpu", "{name: a}") + class(`"4"`), 0, true},
		"a class of another kind's name": {draPlugin + pool("gpu", "{kind: NodeClass, name: b}") + class(`"4"`), 0, true},
		"of two pools":                   {draPlugin + pool("other", "{name: b}") + pool("gpu", "{kind: EC2NodeClass, name: b}") + class(`"4"`), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			out, problems := deviceplugin.Expand(read(t, c.text))
			_, applied := out.Get(state.Key{Target: "kubernetes", Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "b"})
			if len(problems) != c.problems || applied != c.applied {
				t.Errorf("applied is %t, with %v", applied, problems)
			}
			if items := out.Items(); len(items) < 2 {
				t.Errorf("the DevicePlugin is not carried out: %v", items)
			}
		})
	}
}
