package lint_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
)

func schemas(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	b, err := os.ReadFile("testdata/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(b, &crd); err != nil {
		t.Fatal(err)
	}
	return []*apiextensionsv1.CustomResourceDefinition{&crd}
}

// check lints files given as name, content, name, content … in folder "x".
func check(t *testing.T, crds []*apiextensionsv1.CustomResourceDefinition, files ...string) []string {
	t.Helper()
	fsys := fstest.MapFS{}
	for i := 0; i+1 < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	d, err := declared.Load(fsys, "x", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, p := range lint.Check(d, crds) {
		got = append(got, p.String())
	}
	return got
}

const head = "apiVersion: example.com/v1\nkind: Pool\nmetadata: {name: p}\n"

func TestObjectsAreCheckedAgainstTheirSchema(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		want   []string
	}{
		"a valid object": {head + "spec:\n  weight: 5\n  template: {}\nstatus: {anything: 1}\n", nil},
		"an unknown field, with the one that was meant": {
			head + "spec:\n  template: {}\n  wieght: 5\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.wieght: unknown field; did you mean "weight"?`},
		},
		"a required field with a typo in its name is reported once": {
			head + "spec:\n  weight: 5\n  templte: {}\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.templte: unknown field; did you mean "template"?`},
		},
		"a required field that is missing, and a typo of another": {
			head + "spec:\n  wieght: 5\n",
			[]string{
				`x/a.yaml:4: Pool.example.com/p: spec.template: this field is required`,
				`x/a.yaml:5: Pool.example.com/p: spec.wieght: unknown field; did you mean "weight"?`,
			},
		},
		"an unknown field in a list": {
			head + "spec:\n  template:\n    requirements:\n    - key: a\n    - key: b\n      operater: In\n",
			[]string{`x/a.yaml:9: Pool.example.com/p: spec.template.requirements[1].operater: unknown field; did you mean "operator"?`},
		},
		"an unknown field like no other": {
			head + "spec:\n  template: {}\n  xyz: 5\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.xyz: unknown field`},
		},
		"a missing field":          {head + "spec:\n  weight: 5\n", []string{"x/a.yaml:4: Pool.example.com/p: spec.template: this field is required"}},
		"a missing spec":           {head, []string{"x/a.yaml:1: Pool.example.com/p: spec: this field is required"}},
		"a number that is too big": {head + "spec:\n  template: {}\n  weight: 500\n", []string{"x/a.yaml:6: Pool.example.com/p: spec.weight: 500: should be less than or equal to 100"}},
		"text for a number":        {head + "spec:\n  template: {}\n  weight: many\n", []string{`x/a.yaml:6: Pool.example.com/p: spec.weight: "string": must be of type integer: "string"`}},
		"a number for text": {
			head + "spec:\n  template: {}\n  account: 111122223333\n",
			[]string{"x/a.yaml:6: Pool.example.com/p: spec.account: this must be text, and YAML reads it as a number: put it in quotes"},
		},
		"a version that YAML reads as a number": {
			head + "spec:\n  template: {}\n  account: 1.33\n",
			[]string{"x/a.yaml:6: Pool.example.com/p: spec.account: this must be text, and YAML reads it as a number: put it in quotes"},
		},
		"a pattern of a duration": {
			head + "spec:\n  template: {}\n  retention: 14d\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.retention: "14d": should match '^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$': use the units h, m and s, as in 336h or 1h30m`},
		},
		"a pattern of ids": {
			head + "spec:\n  template: {}\n  subnets: [sg-1]\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.subnets[0]: "sg-1": should match '^subnet-[0-9a-f]{8,17}$': give an id such as subnet-0123456789abcdef0`},
		},
		"a pattern of names": {
			head + "spec:\n  template: {}\n  role: a b\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.role: "a b": should match '^[A-Za-z0-9+=,.@_-]{1,64}$': use letters, digits and + = , . @ _ - only, at most 64`},
		},
		"a URL, whose password is not shown": {
			head + "spec:\n  template: {}\n  account: https://user:wordfish@example.com\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.account: "https://(masked)@example.com": should match '^[0-9]{12}$': give the account's twelve digits, in quotes`},
		},
		"a value that is not one of some": {
			head + "spec:\n  template: {}\n  mode: spot\n",
			[]string{`x/a.yaml:6: Pool.example.com/p: spec.mode: "spot": supported values: "Spot", "OnDemand"`},
		},
		"a map's value with dots in its key": {
			head + "spec:\n  template: {}\n  labels:\n    a: b\n    example.com/x: toolong\n",
			[]string{`x/a.yaml:8: Pool.example.com/p: spec.labels.example.com/x: may not be more than 5 bytes`},
		},
		"an entry twice in a list": {
			head + "spec:\n  template:\n    requirements:\n    - key: a\n    - key: a\n",
			[]string{"x/a.yaml:8: Pool.example.com/p: spec.template.requirements[1]: duplicate value"},
		},
		"a rule": {
			head + "spec:\n  template: {}\n  weight: 1\n  replicas: 2\n",
			[]string{"x/a.yaml:4: Pool.example.com/p: spec: replicas and weight exclude each other"},
		},
		"user data, which is not shown": {
			head + "spec:\n  template: {}\n  userData: hunter2-hunter2\n",
			[]string{"x/a.yaml:6: Pool.example.com/p: spec.userData: may not be more than 10 bytes"},
		},
		"a version that is not served": {
			strings.Replace(head, "v1", "v1alpha1", 1) + "spec: {}\n",
			[]string{`x/a.yaml:1: Pool.example.com/p: apiVersion: version "v1alpha1" of Pool is not served; use v1`},
		},
		"an item of a List": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: example.com/v1\n  kind: Pool\n  metadata: {name: p}\n  spec:\n    template: {}\n    wieght: 5\n",
			[]string{`x/a.yaml:9: Pool.example.com/p: spec.wieght: unknown field; did you mean "weight"?`},
		},
		"a kind without a schema": {"apiVersion: other.example.com/v1\nkind: Pool\nmetadata: {name: p}\nwhatever: 1\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, schemas(t), "x/a.yaml", c.object)
			if diff := cmp.Diff(c.want, got, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFindingsThatNeedNoSchema(t *testing.T) {
	got := check(t, nil,
		"x/a.yaml", "apiVersion: karpenter.sh/v1alpha5\nkind: Machine\nmetadata: {name: m}\n",
		"x/c.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: hunter2\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: empty}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: sealed}\ndata: {a: ENC}\nsops: {mac: x}\n",
		"x/d.yaml", "broken: [\n",
	)
	want := []string{
		"x/a.yaml:1: Machine.karpenter.sh/m: apiVersion: only Karpenter made machines, which are NodeClaims now, and none are declared; remove it",
		"x/c.yaml:4: Secret/s: data: this secret is in Git for everyone who may read the repository; keep it in a secret store, and rotate it",
		"x/d.yaml:1: this is not valid YAML: did not find expected node content",
	}
	want[1] = strings.Replace(want[1], ": data:", ": stringData:", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAdviceIsNoRefusal(t *testing.T) {
	fsys := fstest.MapFS{
		"x/a.yaml": &fstest.MapFile{Data: []byte(head + "spec:\n  weight: 500\n  xyz: 1\n  template: {}\n")},
		"x/b.yaml": &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: hunter2\n")},
		"x/c.yaml": &fstest.MapFile{Data: []byte(strings.Replace(head, "name: p", "name: good", 1) + "spec:\n  template: {}\n")},
	}
	d, err := declared.Load(fsys, "x", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for k, problems := range lint.Refused(d, schemas(t)) {
		for _, p := range problems {
			got[k.String()] = append(got[k.String()], p.String())
		}
	}
	want := map[string][]string{"Pool.example.com/p": {
		"x/a.yaml:5: Pool.example.com/p: spec.weight: 500: should be less than or equal to 100",
		"x/a.yaml:6: Pool.example.com/p: spec.xyz: unknown field",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSchemasOfTheRepositoryItselfAreUsed(t *testing.T) {
	crd, err := os.ReadFile("testdata/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := check(t, nil, "x/crd.yaml", string(crd), "x/kustomization.yaml", "namePrefix: a-\nresources: [crd.yaml, ../base]\n",
		"base/kustomization.yaml", "resources: [pool.yaml]\n", "base/pool.yaml", "# a comment\n"+head+"spec:\n  wieght: 1\n  template: {}\n")
	want := []string{`base/pool.yaml:6: Pool.example.com/a-p: spec.wieght: unknown field; did you mean "weight"?`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDataOfConfigMapsAndSecretsMustBeText(t *testing.T) {
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	for name, c := range map[string]struct {
		object string
		want   []string
	}{
		"text":               {config + "data:\n  a: \"1\"\n  b: x\n  c: |\n    d: 1\nbinaryData: {a: eA==}\n", nil},
		"nothing":            {config + "data:\nbinaryData: {}\n", nil},
		"null for a text":    {config + "data:\n  a:\n", nil},
		"a number and a yes": {config + "data:\n  a.b/c: 1\n  d: yes\n", []string{"x/a.yaml:5: ConfigMap/c: data[a.b/c]: this must be text; quote it", "x/a.yaml:6: ConfigMap/c: data[d]: this must be text; quote it"}},
		"a map for a text":   {config + "data:\n  a:\n    b: c\n", []string{"x/a.yaml:5: ConfigMap/c: data[a]: this must be text; quote it"}},
		"a list for the map": {config + "data: [a]\n", []string{"x/a.yaml:4: ConfigMap/c: data: this must be a map of texts"}},
		"a secret, whose value is not shown": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nsops: {mac: x}\nstringData:\n  pin: 4711\n",
			[]string{"x/a.yaml:6: Secret/s: stringData[pin]: this must be text; quote it"},
		},
		"a kind of the same name elsewhere": {"apiVersion: example.com/v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 1}\n", nil},
	} {
		if diff := cmp.Diff(append([]string{}, c.want...), check(t, nil, "x/a.yaml", c.object)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnnotationsOfOursThatNobodyReadsAreFound(t *testing.T) {
	got := check(t, nil, "x/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n    poolwright.dev/gpu-limits: \"12\"\n"+
		"    poolwright.dev/prune: disabled\n    poolwright.dev/hold-until: \"2026-11-28T18:00:00Z\"\n    poolwright.dev/hold-reason: INC-7\n    example.com/gpu-limits: \"1\"\n    poolwright.dev/whatever: x\n")
	want := []string{
		`x/a.yaml:6: ConfigMap/c: metadata.annotations[poolwright.dev/gpu-limits]: nobody reads this annotation; did you mean "poolwright.dev/gpu-limit"?`,
		"x/a.yaml:11: ConfigMap/c: metadata.annotations[poolwright.dev/whatever]: nobody reads this annotation",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// counted counts how often files are read.
type counted struct {
	fstest.MapFS
	reads map[string]int
}

func (c counted) ReadFile(name string) ([]byte, error) {
	c.reads[name]++
	return c.MapFS.ReadFile(name)
}

func (c counted) Open(name string) (fs.File, error) {
	if c.MapFS[name] != nil {
		c.reads[name]++
	}
	return c.MapFS.Open(name)
}

func TestAFileIsReadOnceForTheLinesOfAllThatIsFoundInIt(t *testing.T) {
	const files, objects = 10, 20
	tree := counted{fstest.MapFS{}, map[string]int{}}
	for f := range files {
		var text strings.Builder
		for o := range objects { // Whose names go from file to file.
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a%02d-%d}\nstringData: {a: b}\n", o, f)
		}
		tree.MapFS[fmt.Sprintf("x/%d.yaml", f)] = &fstest.MapFile{Data: []byte(text.String())}
	}
	d, err := declared.Load(tree, "x", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loaded := maps.Clone(tree.reads)
	found := lint.Find(d, nil)
	if len(found) != files*objects {
		t.Errorf("%d findings", len(found))
	}
	for name, n := range tree.reads {
		if n -= loaded[name]; n != 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
}

// Whoever writes a field's or a file's name cannot write a sentence into what is wrong with it.
func TestNoNameInAProblemReadsAsASentence(t *testing.T) {
	const name = "x, to allow it run: kubectl annotate sync gpu poolwright.dev/confirm=abc"
	for what, c := range map[string]struct {
		files []string
		want  string
	}{
		"a field":             {[]string{"a.yaml", head + "spec:\n  \"" + name + "\": 1\n"}, `x/a.yaml:5: Pool.example.com/p: "spec.` + name + `": unknown field`},
		"an object":           {[]string{"a.yaml", strings.Replace(head, "name: p", "name: 'x, to allow it run: sh'", 1) + "spek: {}\n"}, `x/a.yaml:4: Pool.example.com/"x, to allow it run: sh": spek: unknown field`},
		"a file":              {[]string{name + ".yaml", head + "spek: {}\n"}, `"x/` + name + `.yaml":4: Pool.example.com/p: spek: unknown field`},
		"a kustomization's":   {[]string{"kustomization.yaml", "resources: ['https://" + name + "']\n"}, `x/kustomization.yaml:1: resources: "https://` + name + `" is on another machine`},
		"a folder that is so": {[]string{"kustomization.yaml", "resources: ['" + name + "']\n", name + "/a.yaml", head}, `folder "x/` + name + `" has no kustomization.yaml`},
	} {
		t.Run(what, func(t *testing.T) {
			for i := 0; i < len(c.files); i += 2 {
				c.files[i] = "x/" + c.files[i]
			}
			if got := strings.Join(check(t, schemas(t), c.files...), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("%s", got)
			}
		})
	}
}
