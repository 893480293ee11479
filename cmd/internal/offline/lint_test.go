package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/variables"
)

func TestLintFindsWhatIsWrongAboutGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  []string // the beginning of each finding
	}{
		"a taint and a limit, in their lines": {
			[]string{"a.yaml", reconcilertest.GPUPoolFile, "b.yaml", reconcilertest.DevicePluginFile("nvidia", "[{name: whole, nodePools: [gpu]}]")},
			[]string{
				"a.yaml:7: warning: NodePool.karpenter.sh/gpu: spec.limits[gpu]: limits nothing",
				"a.yaml:13: NodePool.karpenter.sh/gpu: spec.template.spec.taints[1]: the device plugin does not tolerate tier=premium:NoSchedule",
			},
		},
		"a second DevicePlugin": {
			[]string{"a.yaml", reconcilertest.DevicePluginFile("one", "[{name: whole, nodePools: [gpu]}]"), "b.yaml", reconcilertest.DevicePluginFile("two", "[{name: whole, nodePools: [gpu]}]")},
			[]string{"b.yaml:1: DevicePlugin.poolwright.dev/two is a second DevicePlugin"},
		},
		"what the schema refuses is reported once": {
			[]string{"a.yaml", reconcilertest.DevicePluginFile("nvidia", "[{name: sliced, nodePools: [gpu], timeSlicing: {replicas: 1}}]")},
			[]string{"a.yaml:5: DevicePlugin.poolwright.dev/nvidia: spec.configs[0].timeSlicing.replicas"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := Lint(t.Context(), folder(t, c.files...), variables.Input{})
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

const (
	oldClass = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  amiFamily: AL2\n  role: nodes\n" +
		"  subnetSelectorTerms: [{id: subnet-0123456789abcdef0}]\n  securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]\n"
	oldPool = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n      nodeClassRef: {name: gpu}\n" +
		"      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}]\n"
	newClass = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  amiSelectorTerms: [{alias: al2@latest}]\n  role: nodes\n" +
		"  subnetSelectorTerms: [{id: subnet-0123456789abcdef0}]\n  securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]\n"
)

func clusterOf(version string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {name: dev, account: \"123456789012\", region: eu-west-1, version: \"" + version + "\"}\n"
}

func TestLintReportsOldAPIs(t *testing.T) {
	const al2 = "…is refused at Kubernetes 1.33"
	for name, c := range map[string]struct {
		files []string
		want  []string // the beginning of each finding, DIR for the folder; what it says after …
	}{
		"that are followed, in one line a file": {
			[]string{"a.yaml", "# the GPU nodes\n" + oldClass + "---\n" + oldPool, "b.yaml", clusterOf("1.32")},
			[]string{"a.yaml:2: warning: an old API of Karpenter, followed as v1 with 9 defaults made explicit and 3 lossless changes; `poolwright convert DIR` shows them, and with --write writes them"},
		},
		"that are followed, and whose images there are no more": {
			[]string{"a.yaml", oldClass, "b.yaml", clusterOf("1.33")},
			[]string{
				"a.yaml:1: warning: an old API of Karpenter, followed as v1 with 4 defaults made explicit and 2 lossless changes; `poolwright",
				"a.yaml:5: warning: needs a person: EC2NodeClass/gpu: " + al2,
			},
		},
		"of which only the images are left": {
			[]string{"a.yaml", newClass, "b.yaml", clusterOf("1.33")},
			[]string{"a.yaml:5: warning: needs a person: EC2NodeClass/gpu: " + al2},
		},
		"but not of images that there are": {[]string{"a.yaml", newClass, "b.yaml", clusterOf("1.32")}, nil},
		"of which a label is left beside v1": {
			[]string{"a.yaml", newClass, "b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: job, annotations: {karpenter.sh/do-not-evict: \"true\"}}\n"},
			[]string{"b.yaml:3: warning: 1 mention of an old API of Karpenter, of which nothing comes in v1; `poolwright convert DIR` shows what v1 calls them, and with --write renames them"},
		},
		"that nothing comes of, as problems": {
			[]string{"a.yaml", "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: gpu}\nspec:\n  launchTemplate: x\n  instanceProfile: p\n  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n"},
			[]string{"a.yaml:5: AWSNodeTemplate/gpu: Karpenter v1 takes no launch templates; write what it holds into the class instead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, c.files...)
			linted, err := Lint(t.Context(), dir, variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			found := linted.All()
			if len(found) != len(c.want) {
				t.Fatalf("findings: %v", found)
			}
			for i, want := range c.want {
				begins, message, _ := strings.Cut(want, "…")
				if got := strings.ReplaceAll(found[i].String(), "poolwright convert "+dir, "poolwright convert DIR"); !strings.HasPrefix(got, begins) || !strings.Contains(got, message) {
					t.Errorf("%q does not begin with %q, or does not say %q", got, begins, message)
				}
			}
		})
	}
}

// folder writes files, given as name, content, name, content …
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLintFindsWhatAWSWouldRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  []string
	}{
		"nothing": {[]string{"a.yaml", reconcilertest.ClusterFile("a", "  interruptionQueue: {}\n")}, nil},
		"a tag that only AWS may set": {
			[]string{"a.yaml", reconcilertest.ClusterFile("a", "  tags: {\"aws:foo\": bar}\n  interruptionQueue: {}\n")},
			[]string{"a.yaml:", "spec.tags", "aws:foo"},
		},
		"a second Cluster": {
			[]string{"a.yaml", reconcilertest.ClusterFile("a", ""), "b.yaml", reconcilertest.ClusterFile("b", "")},
			[]string{"b.yaml:1", "there is another Cluster", "a.yaml:1"},
		},
		"sizes out of order": {
			[]string{"a.yaml", reconcilertest.ClusterFile("a", "  managedNodeGroups: [{name: s, minSize: 5, maxSize: 3}]\n")},
			[]string{"a.yaml:", "minSize 5 above maxSize 3"},
		},
		"a value that the schema refuses, in its line": {
			[]string{"a.yaml", reconcilertest.ClusterFile("a", "  interruptionQueue:\n    retention: 5s\n")},
			[]string{"a.yaml:9", "retention must be between 1m and 336h"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := Lint(t.Context(), folder(t, c.files...), variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			found := linted.Problems
			if (len(found) > 0) != (len(c.want) > 0) {
				t.Fatalf("findings: %v", found)
			}
			for _, text := range c.want {
				if !strings.Contains(found[0].String(), text) {
					t.Errorf("%q lacks %q", found[0], text)
				}
			}
		})
	}
}
