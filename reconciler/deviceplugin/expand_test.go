package deviceplugin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// read declares the documents of a text; each is on a line of its own number.
func read(t testing.TB, text string) state.Set {
	t.Helper()
	var items []state.Item
	for i, doc := range strings.Split(text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		gvk := u.GroupVersionKind()
		items = append(items, state.Item{
			Key:     state.Key{Target: "kubernetes", Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()},
			Version: gvk.Version, Object: u.Object, Origin: state.Origin{File: "gpu.yaml", Line: i + 1},
		})
	}
	return state.NewSet(items...)
}

func file(t testing.TB, name string) state.Set {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, string(text))
}

// goldens are the declarations in testdata.
func goldens() []string {
	return []string{"whole", "timeslicing", "mps-renamed", "bottlerocket", "gpu-limit", "dra-driver", "mig"}
}

// expand is Expand where no problem is expected.
func expand(t testing.TB, declared state.Set) state.Set {
	t.Helper()
	out, problems := deviceplugin.Expand(declared)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return out
}

// fresh are the items that Expand made or changed.
func fresh(before, after state.Set) []state.Item {
	return slices.DeleteFunc(after.Items(), func(item state.Item) bool {
		old, was := before.Get(item.Key)
		return was && state.Equal(old.Object, item.Object)
	})
}

func TestAnExpansionIsAsInTheGoldenFile(t *testing.T) {
	for _, name := range goldens() {
		t.Run(name, func(t *testing.T) {
			declared := file(t, name)
			var got bytes.Buffer
			for _, item := range fresh(declared, expand(t, declared)) {
				text, err := yaml.Marshal(item.Object)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "# from %s\n%s---\n", item.Origin, text)
			}
			golden.Compare(t, filepath.Join("testdata", name+".golden.yaml"), got.Bytes())
		})
	}
}

func TestTheSameDeclarationExpandsToTheSameBytes(t *testing.T) {
	var first []byte
	for range 20 {
		text, err := json.Marshal(expand(t, file(t, "timeslicing")).Items())
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		}
		if !bytes.Equal(first, text) {
			t.Fatal(cmp.Diff(string(first), string(text)))
		}
	}
}

func TestWithoutADevicePluginNothingChanges(t *testing.T) {
	declared := read(t, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec: {limits: {nvidia.com/gpu: "3"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: b}
`)
	if d := cmp.Diff(declared.Items(), expand(t, declared).Items()); d != "" {
		t.Error(d)
	}
}

// whole is a declaration that tests vary.
const whole = `
apiVersion: poolwright.dev/v1alpha1
kind: DevicePlugin
metadata: {name: nvidia}
spec: {defaultConfig: whole, configs: [{name: whole}, {name: sliced, nodePools: [gpu], timeSlicing: {replicas: 10}}]}`

const limitedPool = `
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu, annotations: {poolwright.dev/gpu-limit: "4"}}
spec: {limits: {cpu: "4"}}`

// draPlugin serves the pool gpu by the DRA driver.
const draPlugin = `
apiVersion: poolwright.dev/v1alpha1
kind: DevicePlugin
metadata: {name: nvidia}
spec: {configs: [{name: claims, nodePools: [gpu], draDriver: {}}]}`

func TestProblemsAreReportedWithTheirOrigin(t *testing.T) {
	pool := func(text string) string {
		return whole + strings.Replace(limitedPool, "spec: {limits: {cpu: \"4\"}}", text, 1)
	}
	limit := func(text string) string { return whole + strings.Replace(limitedPool, `"4"}`, text+"}", 1) }
	spec := func(text string) string { return whole[:strings.Index(whole, "spec:")] + "spec: " + text + limitedPool }
	for name, c := range map[string]struct{ text, want string }{
		"a second DevicePlugin":          {whole + "\n---" + strings.Replace(whole, "nvidia", "other", 1), "gpu.yaml:2: DevicePlugin.poolwright.dev/other is a second DevicePlugin beside nvidia (gpu.yaml:1), and a cluster has one: move its configurations there and remove it"},
		"a pool of two configurations":   {spec(`{configs: [{name: a, nodePools: [x, z]}, {name: b, nodePools: [z]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: the pool "z" is named by the configurations "a" and "b": each pool has one`},
		"a pool named twice":             {spec(`{configs: [{name: a, nodePools: [x, x]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" names the pool "x" twice`},
		"replicas as a text":             {spec(`{configs: [{name: a, nodePools: [x], mps: {replicas: many}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia cannot be read, and the API server would refuse it: `},
		"no configurations":              {spec(`{configs: []}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: spec.configs is empty: name at least one way of serving GPUs`},
		"no spec":                        {spec(`null`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: spec.configs is empty: name at least one way of serving GPUs`},
		"two configurations of one name": {spec(`{configs: [{name: a, nodePools: [x]}, {name: a, nodePools: [z]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: there are two configurations "a"`},
		"a configuration without pools":  {spec(`{configs: [{name: a}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" serves no pool: name its nodePools, or make it the defaultConfig`},
		"an unknown default":             {spec(`{defaultConfig: b, configs: [{name: a, nodePools: [x]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: spec.defaultConfig "b" is none of the configurations`},
		"two strategies":                 {spec(`{configs: [{name: a, nodePools: [x], mps: {replicas: 2}, timeSlicing: {replicas: 2}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" has timeSlicing and mps: choose one`},
		"one slice":                      {spec(`{configs: [{name: a, nodePools: [x], timeSlicing: {replicas: 1}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": timeSlicing.replicas must be from 2 to 1000`},
		"too many MPS clients":           {spec(`{configs: [{name: a, nodePools: [x], mps: {replicas: 49}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mps.replicas must be from 2 to 48`},
		"a name that is no name":         {spec(`{configs: [{name: A/b, nodePools: [x]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: the configuration name "A/b" must be of lower case letters, digits and dashes, 30 at most`},
		"a pool that is no name":         {spec(`{configs: [{name: a, nodePools: ["x, y"]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" names "x, y", which can be no NodePool's name`},
		"an image with a tag and space":  {spec(`{image: "a b", configs: [{name: a, nodePools: [x]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: spec.image is no image such as nvcr.io/nvidia/k8s-device-plugin: leave its tag out, spec.version is the tag`},
		"a version that is no tag":       {spec(`{version: latest, configs: [{name: a, nodePools: [x]}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: spec.version "latest" is no version of NVIDIA's plugin such as v0.19.3`},
		"a limit that is a text":         {limit(`"four"`), `gpu.yaml:2: NodePool.karpenter.sh/gpu: the annotation poolwright.dev/gpu-limit is "four" and must be a number of GPUs, "1" or more`},
		"a limit of none":                {limit(`"0"`), `gpu.yaml:2: NodePool.karpenter.sh/gpu: the annotation poolwright.dev/gpu-limit is "0" and must be a number of GPUs, "1" or more`},
		"a limit below":                  {limit(`"-4"`), `gpu.yaml:2: NodePool.karpenter.sh/gpu: the annotation poolwright.dev/gpu-limit is "-4" and must be a number of GPUs, "1" or more`},
		"a limit in parts":               {limit(`"1.5"`), `gpu.yaml:2: NodePool.karpenter.sh/gpu: the annotation poolwright.dev/gpu-limit is "1.5" and must be a number of GPUs, "1" or more`},
		"a limit beyond all":             {limit(`"9223372036854775807"`), `gpu.yaml:2: NodePool.karpenter.sh/gpu: the annotation poolwright.dev/gpu-limit is "9223372036854775807" and must be a number of GPUs, "1" or more`},
		"two limits":                     {pool(`spec: {limits: {nvidia.com/gpu: "40"}}`), `gpu.yaml:2: NodePool.karpenter.sh/gpu has the annotation poolwright.dev/gpu-limit and spec.limits[nvidia.com/gpu], which would be two limits on the same GPUs: keep one`},
		"a limit by the other name":      {pool(`spec: {limits: {nvidia.com/gpu.shared: "40"}}`), `gpu.yaml:2: NodePool.karpenter.sh/gpu has the annotation poolwright.dev/gpu-limit and spec.limits[nvidia.com/gpu.shared], which would be two limits on the same GPUs: keep one`},
		"limits that are none":           {pool(`spec: {limits: all}`), `gpu.yaml:2: NodePool.karpenter.sh/gpu: spec.limits cannot be read, and the API server would refuse it`},
		"a limit without a configuration": {spec(`{configs: [{name: a, nodePools: [x]}]}`),
			`gpu.yaml:2: NodePool.karpenter.sh/gpu has the annotation poolwright.dev/gpu-limit, and no configuration of a DevicePlugin in the repository serves the pool: add it to one, or write the limit into spec.limits`},
		"a limit without a DevicePlugin": {strings.TrimPrefix(limitedPool, "\n---\n"),
			`gpu.yaml:1: NodePool.karpenter.sh/gpu has the annotation poolwright.dev/gpu-limit, and no configuration of a DevicePlugin in the repository serves the pool: add it to one, or write the limit into spec.limits`},
		"shares by the DRA driver":       {spec(`{configs: [{name: a, nodePools: [x], draDriver: {}, mps: {replicas: 2}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" has draDriver, which advertises whole GPUs, and timeSlicing or mps, which are the device plugin's: choose one`},
		"a DRA driver's version":         {spec(`{configs: [{name: a, nodePools: [x], draDriver: {version: latest}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": draDriver.version "latest" is no version of NVIDIA's DRA driver such as v0.4.1`},
		"a DRA driver's image":           {spec(`{configs: [{name: a, nodePools: [x], draDriver: {image: "a:b c"}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": draDriver.image is no image such as registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu: leave its tag out, configuration "a": draDriver.version is the tag`},
		"MIG by the DRA driver":          {spec(`{configs: [{name: a, nodePools: [x], draDriver: {}, mig: {devices: {1g.10gb: 7}}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" has mig and draDriver: Karpenter expects whole GPUs of NVIDIA's DRA driver and launches no node for a claim of a MIG device: take draDriver out, and have pods request MIG devices of the device plugin`},
		"shares of partitions":           {spec(`{configs: [{name: a, nodePools: [x], timeSlicing: {replicas: 2}, mig: {devices: {1g.10gb: 7}}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a" has mig, and timeSlicing or mps: choose one`},
		"no partitions":                  {spec(`{configs: [{name: a, nodePools: [x], mig: {}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mig.devices must name from 1 to 6 profiles, such as 1g.10gb: 7`},
		"a profile of another form":      {spec(`{configs: [{name: a, nodePools: [x], mig: {devices: {"1g.10gb+me": 1}}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mig.devices[1g.10gb+me] must be a profile such as 1g.10gb, with 1 to 7 devices`},
		"eight partitions":               {spec(`{configs: [{name: a, nodePools: [x], mig: {devices: {1g.10gb: 8}}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mig.devices[1g.10gb] must be a profile such as 1g.10gb, with 1 to 7 devices`},
		"a strategy that is none":        {spec(`{configs: [{name: a, nodePools: [x], mig: {devices: {1g.10gb: 7}, strategy: both}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mig.strategy must be mixed or single`},
		"two profiles under one name":    {spec(`{configs: [{name: a, nodePools: [x], mig: {devices: {1g.10gb: 1, 2g.20gb: 1}, strategy: single}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mig.strategy single advertises devices of one profile, and mig.devices names 2: name one, or choose mixed`},
		"a MIG manager's image":          {spec(`{configs: [{name: a, nodePools: [x], mig: {devices: {1g.10gb: 1}, image: "a:b c"}}]}`), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration "a": mig.image is no image such as nvcr.io/nvidia/cloud-native/k8s-mig-manager: leave its tag out, configuration "a": mig.version is the tag`},
		"partitions of GPUs without MIG": {migPlugin + typedPool("g5.xlarge"), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration sevenths partitions each GPU of NodePool gpu into 1g.10gb: 7, and the pool allows g5.xlarge, with A10G: MIG does not partition these; change mig.devices, or the pool's instance types (gpu.yaml:2)`},
		"partitions of another GPU":      {migPlugin + typedPool("p5.48xlarge, p5en.48xlarge"), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration sevenths partitions each GPU of NodePool gpu into 1g.10gb: 7, and the pool allows p5en.48xlarge, with H200: its profiles are 1g.18gb, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb; change mig.devices, or the pool's instance types (gpu.yaml:2)`},
		"more partitions than there are": {strings.Replace(migPlugin, "1g.10gb", "1g.20gb", 1) + typedPool("p5.4xlarge"), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration sevenths partitions each GPU of NodePool gpu into 1g.20gb: 7, and the pool allows p5.4xlarge, with H100: the devices together are more than one GPU holds; change mig.devices, or the pool's instance types (gpu.yaml:2)`},
		"partitions that take a reset":   {migPlugin + typedPool("p4de.24xlarge, p5.48xlarge"), `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration sevenths partitions each GPU of NodePool gpu into 1g.10gb: 7, and the pool allows p4de.24xlarge, with A100: to enable MIG on it needs a GPU reset, which EC2 does not allow, or a reboot, which Poolwright does not do; change mig.devices, or the pool's instance types (gpu.yaml:2)`},
		"partitions on Bottlerocket":     {migPlugin + typedPool("p5.48xlarge") + "\n---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: b}\nspec: {amiFamily: Bottlerocket}", `gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration sevenths partitions the GPUs of NodePool gpu by MIG, whose nodes run Bottlerocket, where no pod of NVIDIA's plugin comes to do so: use an EC2NodeClass of AL2023, or take the pool out of the configuration and write Bottlerocket's own settings and a NodeOverlay`},
		"a limit in GPUs of the DRA driver": {spec(`{configs: [{name: a, nodePools: [gpu], draDriver: {}}]}`),
			`gpu.yaml:2: NodePool.karpenter.sh/gpu has the annotation poolwright.dev/gpu-limit, and its GPUs are advertised by NVIDIA's DRA driver, whose devices Karpenter does not count against spec.limits: write spec.limits.nodes, or a limit of cpu, instead`},
		"a DRA driver without Karpenter's gate": {draPlugin + "\n---\napiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {engine: {featureGates: {NodeRepair: true}}}",
			`gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration claims has draDriver, and Cluster.poolwright.dev/c (gpu.yaml:2) does not set spec.engine.featureGates: {DRANVIDIAGPU: true}, without which Karpenter launches no node for a ResourceClaim: set it, which is of alpha stage, or take draDriver out`},
		"several claims on a GPU of the DRA driver": {draPlugin + "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec: {template: {spec: {nodeClassRef: {name: b}}}}\n---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: b, annotations: {karpenter.k8s.aws/nvidia-consumable-capacity: \"4\"}}\nspec: {}",
			`gpu.yaml:3: EC2NodeClass.karpenter.k8s.aws/b: by the annotation karpenter.k8s.aws/nvidia-consumable-capacity Karpenter places several claims on a GPU, and NVIDIA's DRA driver allocates each GPU to one: take the annotation out, or share GPUs by timeSlicing or mps in a pool of the device plugin`},
		"a DRA driver beside Bottlerocket's plugin": {draPlugin + "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec: {template: {spec: {nodeClassRef: {name: b}}}}\n---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: b}\nspec: {amiFamily: Bottlerocket}",
			`gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: configuration claims has NVIDIA's DRA driver for NodePool gpu, whose nodes run Bottlerocket with a device plugin of its own, so that each GPU would be advertised twice: use an EC2NodeClass of AL2023, or a configuration of the device plugin`},
		"an object of our names": {whole + "\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: nvidia-device-plugin-whole, namespace: kube-system}\n",
			`gpu.yaml:2: DaemonSet.apps/kube-system/nvidia-device-plugin-whole is made by the DevicePlugin nvidia (gpu.yaml:1): remove it here`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := deviceplugin.Expand(read(t, c.text))
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) || len(got[0]) > len(c.want) && !strings.HasSuffix(c.want, ": ") {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

const migPlugin = "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: nvidia}\nspec: {configs: [{name: sevenths, nodePools: [gpu], mig: {devices: {1g.10gb: 7}}}]}"

// typedPool is the pool of migPlugin, of some instance types.
func typedPool(types string) string {
	return "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec: {template: {spec: {nodeClassRef: {name: b}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [" + types + "]}]}}}"
}

// What is refused is refused as a whole; a pool of a GPU that has the partitions is carried out, and one whose types are not
// known here too.
func TestPartitionsThatGPUsHaveAreMade(t *testing.T) {
	for name, text := range map[string]string{
		"eight H100, and one":          migPlugin + typedPool("p5.48xlarge, p5.4xlarge"),
		"a pool declared elsewhere":    migPlugin,
		"a type that EC2 has not yet":  migPlugin + typedPool("p99.48xlarge"),
		"types of GPUs, and of others": migPlugin + typedPool("p5.48xlarge, m7i.large"),
	} {
		set := expand(t, read(t, text))
		daemonSet := daemonSets(t, set)["nvidia-device-plugin-sevenths"]
		if daemonSet == nil || len(daemonSet.Spec.Template.Spec.InitContainers) != 1 {
			t.Errorf("%s: %+v", name, daemonSet)
		}
	}
}

func TestWhatIsWrongStaysInTheClusterAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		left []string
	}{
		"a broken DevicePlugin takes its pools' limits along": {strings.Replace(whole, "replicas: 10", "replicas: 1", 1) + limitedPool, nil},
		"two DevicePlugins are both left":                     {whole + "\n---" + strings.Replace(whole, "nvidia", "other", 1) + limitedPool, nil},
		"a pool without a limit is no matter": {strings.Replace(whole, "replicas: 10", "replicas: 1", 1) +
			strings.Replace(limitedPool, "gpu-limit", "other", 1), []string{"NodePool.karpenter.sh/gpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, problems := deviceplugin.Expand(read(t, c.text))
			var left []string
			for _, item := range out.Items() {
				left = append(left, item.Key.String())
			}
			if d := cmp.Diff(c.left, left); d != "" || len(problems) == 0 {
				t.Errorf("%d problems; %s", len(problems), d)
			}
		})
	}
}

func TestAWrongLimitLeavesTheOthersAlone(t *testing.T) {
	out, problems := deviceplugin.Expand(read(t, whole+limitedPool+strings.NewReplacer("name: gpu,", "name: wrong,", `"4"}`, `"x"}`).Replace(limitedPool)))
	if len(problems) != 1 {
		t.Fatal(problems)
	}
	right, ok := out.Get(state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"})
	if limits, _, _ := unstructured.NestedStringMap(right.Object, "spec", "limits"); !ok || limits["nvidia.com/gpu"] != "40" || limits["cpu"] != "4" {
		t.Errorf("limits %v", limits)
	}
	if _, ok := out.Get(state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "wrong"}); ok {
		t.Error("a pool whose limit is unknown would be changed")
	}
}

func TestTheDeclarationIsNotChangedInPlace(t *testing.T) {
	declared := read(t, whole+limitedPool)
	before, err := json.Marshal(declared.Items())
	if err != nil {
		t.Fatal(err)
	}
	expand(t, declared)
	after, err := json.Marshal(declared.Items())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(before), string(after)); d != "" {
		t.Error(d)
	}
}

func TestWhatIsRefusedIsLeftWithAllThatDependsOnIt(t *testing.T) {
	const unlimited = "\n---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: other}\nspec: {}"
	out, problems := deviceplugin.Refuse(read(t, whole+limitedPool+unlimited), finding.Finding{Code: "DevicePluginOfOther", Text: "there is another"})
	if len(problems) != 1 || problems[0].Code != "DevicePluginOfOther" || problems[0].String() != "gpu.yaml:1: DevicePlugin.poolwright.dev/nvidia: there is another" {
		t.Errorf("problems: %v", problems)
	}
	if items := out.Items(); len(items) != 1 || items[0].Key.Name != "other" {
		t.Errorf("left are %v", items)
	}
}
