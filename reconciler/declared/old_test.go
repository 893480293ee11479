package declared

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/state"
)

const (
	oldClass = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  amiFamily: AL2\n  role: nodes\n" +
		"  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n"
	oldNodePool = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n      nodeClassRef: {name: gpu}\n"
	oldPod      = "apiVersion: v1\nkind: Pod\nmetadata: {name: job, annotations: {karpenter.sh/do-not-evict: \"true\"}}\n"
)

// overlaid is a folder on disk with the files of others over it.
func overlaid(t *testing.T, folders ...string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for _, folder := range folders {
		err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(folder, name))
			out[name] = &fstest.MapFile{Data: content}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func objects(d Declared) map[string]any {
	out := map[string]any{}
	for _, i := range d.Set.Items() {
		out[i.Key.String()+" "+i.Version] = i.Object
	}
	return out
}

func TestARepositoryOfAnOldAPIDeclaresWhatItsConvertedFilesDo(t *testing.T) {
	cases, err := filepath.Glob("conversion/testdata/*/in")
	if err != nil || len(cases) < 2 {
		t.Fatal("no cases: ", cases, err)
	}
	for _, in := range cases {
		t.Run(filepath.Base(filepath.Dir(in)), func(t *testing.T) {
			written := overlaid(t, in)
			got := load(t, written, ".")
			want := load(t, overlaid(t, in, filepath.Join(filepath.Dir(in), "want")), ".")
			if diff := cmp.Diff(objects(want), objects(got)); diff != "" {
				t.Errorf("(-converted files +as written):\n%s", diff)
			}
			if len(got.Problems) > 0 || len(got.Converted) == 0 || len(want.Converted) > 0 {
				t.Errorf("problems %v, %d changes as written, and of v1 %v", got.Problems, len(got.Converted), want.Converted)
			}
			for _, i := range got.Set.Items() {
				doc, ok := got.Document(i.Origin)
				if !ok || written[i.Origin.File] == nil || doc.Line != i.Origin.Line {
					t.Errorf("%s comes from %s, where nothing begins", i.Key, i.Origin)
				}
			}
		})
	}
}

func TestWhatIsWrittenForAnOldAPI(t *testing.T) {
	for name, c := range map[string]struct {
		files    []string
		want     map[string]string // key and version, and origin
		problems []string
	}{
		"is followed through a kustomization and its patches": {
			[]string{
				"base/kustomization.yaml", "resources: [all.yaml]\n", "base/all.yaml", oldClass + "---\n" + oldNodePool,
				"x/kustomization.yaml", "namePrefix: dev-\nresources: [../base]\npatches:\n- patch: |\n    apiVersion: karpenter.sh/v1beta1\n    kind: NodePool\n    metadata: {name: gpu}\n    spec: {weight: 7}\n",
			},
			map[string]string{"EC2NodeClass.karpenter.k8s.aws/dev-gpu v1": "base/all.yaml:1", "NodePool.karpenter.sh/dev-gpu v1": "base/all.yaml:10"}, nil,
		},
		"and cannot be converted is a problem, and the rest is there": {
			[]string{"x/a.yaml", strings.Replace(oldClass, "AL2", "Ubuntu", 1) + "---\n" + oldNodePool, "x/b.yaml", oldPod},
			map[string]string{"NodePool.karpenter.sh/gpu v1": "x/a.yaml:10", "Pod/job v1": "x/b.yaml:1"},
			[]string{"x/a.yaml:5: EC2NodeClass/gpu: Karpenter v1 finds no Ubuntu AMIs by itself; write spec.amiSelectorTerms with"},
		},
		"in no version that is known is a problem": {
			[]string{"x/a.yaml", strings.Replace(oldNodePool, "v1beta1", "v1alpha6", 1), "x/b.yaml", pool},
			map[string]string{},
			[]string{
				"x/a.yaml:1: NodePool/gpu: karpenter.sh/v1alpha6 NodePool is not known; a conversion starts from karpenter.sh/v1beta1 NodePool",
				"x/b.yaml:1: NodePool.karpenter.sh/gpu is declared twice, first in x/a.yaml:1; remove one",
			},
		},
		"in kubelet settings of pools that disagree splits their class": {
			[]string{"x/a.yaml", oldClass + "---\n" + oldNodePool + "      kubelet: {maxPods: 10}\n---\n" + strings.Replace(oldNodePool, "{name: gpu}\nspec", "{name: other}\nspec", 1) + "      kubelet: {maxPods: 20}\n"},
			map[string]string{
				"EC2NodeClass.karpenter.k8s.aws/gpu v1": "x/a.yaml:1", "EC2NodeClass.karpenter.k8s.aws/gpu-" + state.Hash(`{"maxPods":20}`)[:8] + " v1": "x/a.yaml:1",
				"NodePool.karpenter.sh/gpu v1": "x/a.yaml:10", "NodePool.karpenter.sh/other v1": "x/a.yaml:19",
			}, nil,
		},
		"and becomes a second of its kind is refused": {
			[]string{
				"x/a.yaml", "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: gpu}\nspec:\n  provider: {instanceProfile: p, subnetSelector: {a: b}, securityGroupSelector: {a: b}}\n",
				"x/b.yaml", oldClass + "---\n" + strings.Replace(oldClass, "{name: gpu}", "{name: gpu, namespace: other}", 1),
			},
			map[string]string{"EC2NodeClass.karpenter.k8s.aws/gpu v1": "x/b.yaml:1", "EC2NodeClass.karpenter.k8s.aws/other/gpu v1": "x/b.yaml:10", "NodePool.karpenter.sh/gpu v1": "x/a.yaml:1"},
			[]string{"x/a.yaml:1: EC2NodeClass.karpenter.k8s.aws/gpu is declared twice once the old API of Karpenter is converted, first in x/b.yaml:1; rename one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := load(t, tree(c.files...), "x")
			got := map[string]string{}
			for _, i := range d.Set.Items() {
				got[i.Key.String()+" "+i.Version] = i.Origin.String()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(d.Problems) != len(c.problems) {
				t.Fatalf("problems %v", d.Problems)
			}
			for i, want := range c.problems {
				if !strings.HasPrefix(d.Problems[i].String(), want) {
					t.Errorf("%q does not begin with %q", d.Problems[i], want)
				}
			}
		})
	}
}

func TestLabelsOfAnOldAPIAreRenamedBesideItsKindsAlone(t *testing.T) {
	job := state.Key{Target: "kubernetes", Kind: "Pod", Name: "job"}
	for kind, want := range map[string]string{oldNodePool: "karpenter.sh/do-not-disrupt", pool: "karpenter.sh/do-not-evict"} {
		d := load(t, tree("x/a.yaml", kind, "x/b.yaml", oldPod), "x")
		item, _ := d.Set.Get(job)
		annotations := item.Object["metadata"].(map[string]any)["annotations"].(map[string]any)
		if len(annotations) != 1 || annotations[want] != "true" || len(d.Problems) > 0 {
			t.Errorf("beside\n%s\nthe annotations are %v; problems %v", kind, annotations, d.Problems)
		}
		if converted := len(d.Converted) > 0; converted != (kind == oldNodePool) {
			t.Errorf("beside\n%s\nthe changes are %v", kind, d.Converted)
		}
	}
}

func TestTheDeclaredClustersVersionDecidesWhichImagesThereAre(t *testing.T) {
	for version, want := range map[string]int{"1.32": 0, "1.33": 1} {
		d := load(t, tree("x/a.yaml", oldClass, "x/b.yaml", "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {version: \""+version+"\"}\n"), "x")
		var got []string
		for _, c := range d.Converted {
			if c.Grade == conversion.Manual {
				got = append(got, c.String())
			}
		}
		if len(got) != want || want > 0 && !strings.HasPrefix(got[0], "x/a.yaml:5: manual: EC2NodeClass/gpu: alias al2@latest is refused at Kubernetes 1.33") {
			t.Errorf("%s: %v", version, got)
		}
	}
}

func TestAWarningOfAnOldAPINamesTheLineOfTheField(t *testing.T) {
	base := strings.Replace(oldClass, "  amiFamily: ", "  # A comment.\n  amiFamily: ", 1)
	d := load(t, tree(
		"x/kustomization.yaml", "resources: [class.yaml]\npatches:\n- target: {kind: EC2NodeClass}\n  patch: |\n    - {op: add, path: /spec/detailedMonitoring, value: true}\n",
		"x/class.yaml", base,
	), "x")
	lines := map[int]bool{}
	for _, c := range d.Converted {
		if c.Origin.File != "x/class.yaml" {
			t.Errorf("%v is in %s", c, c.Origin)
		}
		lines[c.Origin.Line] = true
	}
	// What the patch has put there is of no line of its own.
	if len(d.Problems) > 0 || !lines[1] || !lines[1+strings.Count(base[:strings.Index(base, "amiFamily")], "\n")] {
		t.Errorf("%v, %v", d.Problems, d.Converted)
	}
}
