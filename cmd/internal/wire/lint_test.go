package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const gpuPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits:
    cpu: 1000
    gpu: 30
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints:
        - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
        - {key: tier, value: premium, effect: NoSchedule}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
`

func pluginYAML(name, profiles string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: " + name + "}\nspec:\n  profiles: " + profiles + "\n"
}

func TestLintFindsWhatIsWrongAboutGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  []string // the beginning of each finding
	}{
		"a taint and a limit, in their lines": {
			[]string{"a.yaml", gpuPool, "b.yaml", pluginYAML("nvidia", "[{name: whole, nodePools: [gpu]}]")},
			[]string{
				"a.yaml:7: warning: NodePool.karpenter.sh/gpu: spec.limits[gpu]: limits nothing",
				"a.yaml:13: NodePool.karpenter.sh/gpu: spec.template.spec.taints[1]: the device plugin does not tolerate tier=premium:NoSchedule",
			},
		},
		"a second DevicePlugin": {
			[]string{"a.yaml", pluginYAML("one", "[{name: whole, nodePools: [gpu]}]"), "b.yaml", pluginYAML("two", "[{name: whole, nodePools: [gpu]}]")},
			[]string{"b.yaml:1: DevicePlugin.poolwright.dev/two is a second DevicePlugin"},
		},
		"what the schema refuses is said once": {
			[]string{"a.yaml", pluginYAML("nvidia", "[{name: sliced, nodePools: [gpu], timeSlicing: {replicas: 1}}]")},
			[]string{"a.yaml:5: DevicePlugin.poolwright.dev/nvidia: spec.profiles[0].timeSlicing.replicas"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := Lint(t.Context(), folder(t, c.files...))
			if err != nil {
				t.Fatal(err)
			}
			found := linted.All()
			if len(found) != len(c.want) {
				t.Fatalf("findings: %v", found)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(found[i].String(), want) {
					t.Errorf("%q does not begin with %q", found[i], want)
				}
			}
		})
	}
}

func TestAPlanWarnsOfWhatWorksOtherwiseAndCallsTheRestAProblem(t *testing.T) {
	dir := folder(t, "a.yaml", gpuPool, "b.yaml", pluginYAML("nvidia", "[{name: whole, nodePools: [gpu]}]"))
	d, err := load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	problems, notes, err := aboutGPUs(d)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.SplitAfterN(p.String(), ": ", 4)[2])
	}
	for _, n := range notes {
		got = append(got, n.Key.String(), n.Origin.String(), strings.SplitAfterN(n.Text, ": ", 3)[0], strings.SplitAfterN(n.Text, ": ", 3)[1])
	}
	if diff := cmp.Diff([]string{"spec.template.spec.taints[1]: ", "NodePool.karpenter.sh/gpu", "a.yaml:7", "Warning: ", "spec.limits[gpu]: "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheControllerRefusesNothingOfWhatIsWrongAboutGPUs(t *testing.T) {
	dir := folder(t, "a.yaml", gpuPool, "b.yaml", pluginYAML("nvidia", "[{name: whole, nodePools: [gpu]}]"))
	d, err := load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	judged, err := onClusters().judge(d)
	if err != nil || len(judged) > 0 || len(d.Problems) > 0 {
		t.Errorf("refused %v, problems %v, error %v", judged, d.Problems, err)
	}
}
