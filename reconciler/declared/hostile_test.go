package declared

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
)

// trap fails the test when anything connects to its server or starts a program
// from the search path.
type trap struct {
	url    string
	visits atomic.Int32
	ran    string
}

func setTrap(t *testing.T) *trap {
	t.Helper()
	tr := &trap{ran: filepath.Join(t.TempDir(), "ran")}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tr.visits.Add(1) }))
	t.Cleanup(srv.Close)
	tr.url = srv.URL
	bin := t.TempDir()
	for _, name := range []string{"git", "helm", "sh", "bash", "curl", "docker", "kustomize", "evil", "go"} {
		script := "#!/bin/sh\necho " + name + " \"$@\" >> " + tr.ran + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	return tr
}

func (tr *trap) sprung() string {
	if n := tr.visits.Load(); n > 0 {
		return fmt.Sprintf("%d connections", n)
	}
	b, _ := os.ReadFile(tr.ran)
	return string(b)
}

// problemsOf loads and returns what is wrong, errors included, as lines.
func problemsOf(fsys fs.FS, folder string, l Options) (Declared, string) {
	d, err := Load(fsys, folder, l)
	var lines []string
	for _, p := range d.Problems {
		lines = append(lines, p.String())
	}
	if err != nil {
		class, reason, _ := state.Classify(err)
		lines = append(lines, fmt.Sprintf("%s %s: %v", class, reason, err))
	}
	return d, strings.Join(lines, "\n")
}

func TestKustomizationsThatReachOutAreRefusedByName(t *testing.T) {
	tr := setTrap(t)
	evil := "apiVersion: builtin\nkind: %s\nmetadata: {name: x}\n"
	for name, c := range map[string]struct {
		kustomization string
		more          []string
		want          string
	}{
		"a remote resource":                          {"resources:\n- ok.yaml\n- " + tr.url + "/x.yaml\n", nil, "k/kustomization.yaml:3: resources: " + tr.url + "/x.yaml is on another machine"},
		"a remote base":                              {"resources:\n- https://github.com/org/repo//base?ref=main\n", nil, "k/kustomization.yaml:2: resources: https://github.com/org/repo//base is on another machine"},
		"a remote base over ssh":                     {"resources: [\"git@github.com:org/repo.git\"]\n", nil, "on another machine"},
		"a remote base without a scheme":             {"resources: [github.com/org/repo]\n", nil, "on another machine"},
		"a remote base that also exists as a folder": {"resources: [github.com/org/repo]\n", []string{"k/github.com/org/repo/kustomization.yaml", "resources: []"}, "on another machine"},
		"a user before a host":                       {"resources: [\"evil@host/org/repo\"]\n", nil, "on another machine"},
		"a forced git address":                       {"resources: [\"git::https://host/org/repo\"]\n", nil, "on another machine"},
		"a file URL":                                 {"resources: [\"file:///etc\"]\n", nil, "on another machine"},
		"a base of the old field":                    {"bases: [\"" + tr.url + "/org/repo\"]\n", nil, "bases:"},
		"a remote component":                         {"components: [\"" + tr.url + "/org/repo\"]\n", nil, "components:"},
		"a remote patch":                             {"resources: [ok.yaml]\npatches: [{path: \"" + tr.url + "/p\"}]\n", nil, "patches:"},
		"a remote JSON patch":                        {"resources: [ok.yaml]\npatchesJson6902: [{path: \"" + tr.url + "/p\", target: {kind: X}}]\n", nil, "patchesJson6902:"},
		"a remote strategic patch":                   {"resources: [ok.yaml]\npatchesStrategicMerge: [\"" + tr.url + "/p\"]\n", nil, "patchesStrategicMerge:"},
		"a remote replacement":                       {"resources: [ok.yaml]\nreplacements: [{path: \"" + tr.url + "/p\"}]\n", nil, "replacements:"},
		"a remote CRD":                               {"resources: [ok.yaml]\ncrds: [\"" + tr.url + "/p\"]\n", nil, "crds:"},
		"a remote configuration":                     {"resources: [ok.yaml]\nconfigurations: [\"" + tr.url + "/p\"]\n", nil, "configurations:"},
		"a remote schema":                            {"resources: [ok.yaml]\nopenapi: {path: \"" + tr.url + "/p\"}\n", nil, "openapi:"},
		"a remote file of a config map":              {"configMapGenerator: [{name: x, files: [\"a=" + tr.url + "/p\"]}]\n", nil, "configMapGenerator:"},
		"a remote env file of a secret":              {"secretGenerator: [{name: x, envs: [\"" + tr.url + "/p\"]}]\n", nil, "secretGenerator:"},
		"an old remote env file":                     {"secretGenerator: [{name: x, env: \"" + tr.url + "/p\"}]\n", nil, "secretGenerator:"},
		"a remote transformer":                       {"resources: [ok.yaml]\ntransformers: [\"" + tr.url + "/p\"]\n", nil, "transformers:"},
		"an address with credentials":                {"resources: [\"https://u:hunter2@host/org/repo?token=hunter2\"]\n", nil, "https://…@host/org/repo is on another machine"},
		"a chart":                                    {"helmCharts:\n- name: x\n  repo: " + tr.url + "\n  releaseName: --post-renderer=evil\n", nil, "k/kustomization.yaml:1: helmCharts: Helm charts are not rendered"},
		"a chart of the old field":                   {"helmChartInflationGenerator: [{chartName: x}]\n", nil, "helmChartInflationGenerator:"},
		"a generator plugin":                         {"generators: [gen.yaml]\n", []string{"k/gen.yaml", "apiVersion: evil/v1\nkind: Evil\nmetadata: {name: x, annotations: {config.kubernetes.io/function: \"exec: {path: ./evil}\"}}\n"}, "generators: generator plugins are not run"},
		"a built-in chart generator":                 {"generators:\n- |\n  apiVersion: builtin\n  kind: HelmChartInflationGenerator\n  metadata: {name: x}\n", nil, "generators:"},
		"a transformer plugin":                       {"resources: [ok.yaml]\ntransformers: [t.yaml]\n", []string{"k/t.yaml", "apiVersion: evil/v1\nkind: Evil\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: ./evil}\n"}, "is not one of kustomize's built-in transformers"},
		"a validator plugin":                         {"resources: [ok.yaml]\nvalidators: [t.yaml]\n", []string{"k/t.yaml", "apiVersion: evil/v1\nkind: Evil\nmetadata: {name: x}\n"}, "validators:"},
		"a transformer that reads a remote file":     {"resources: [ok.yaml]\ntransformers: [t.yaml]\n", []string{"k/t.yaml", fmt.Sprintf(evil, "PatchTransformer") + "path: " + tr.url + "/p\n"}, "must not read a file"},
		"a replacement transformer that does":        {"resources: [ok.yaml]\ntransformers: [t.yaml]\n", []string{"k/t.yaml", fmt.Sprintf(evil, "ReplacementTransformer") + "replacements: [{path: " + tr.url + "/p}]\n"}, "is not one of"},
		"a built-in transformer that may":            {"resources: [ok.yaml]\ntransformers: [t.yaml]\n", []string{"k/t.yaml", fmt.Sprintf(evil, "ValueAddTransformer") + "targetFilePath: " + tr.url + "/p\n"}, "is not one of"},
		"transformers in a folder, patched later":    {"resources: [ok.yaml]\ntransformers: [t]\n", []string{"k/t/kustomization.yaml", "resources: []\n"}, "is a folder"},
		"an absolute path":                           {"resources: [/etc/passwd]\n", nil, "is an absolute path"},
		"a path out of the repository":               {"resources: [../../etc/passwd]\n", nil, `k/kustomization.yaml:1: resources: "../../etc/passwd" leads out of the repository or, outside Git, out of the folder that is read; make what holds both a Git working copy (git init)`},
		"a link out of the repository":               {"resources: [link.yaml]\n", []string{"k/link.yaml", "-> ../../etc/passwd"}, "leads out of the repository"},
		"an absolute link":                           {"resources: [link.yaml]\n", []string{"k/link.yaml", "-> /etc/passwd"}, "leads out of the repository"},
		"links that form a loop":                     {"resources: [a]\n", []string{"k/a", "-> b", "k/b", "-> a"}, "form a loop"},
		"a file that does not exist":                 {"resources:\n- ok.yaml\n- gone.yaml\n", nil, `k/kustomization.yaml:3: resources: "gone.yaml" does not exist`},
		"an unknown field":                           {"resources: [ok.yaml]\nnameprefix: x\n", nil, `k/kustomization.yaml:2: unknown field "nameprefix" in a kustomization; did you mean "namePrefix"?`},
		"an unknown field deep inside":               {"configMapGenerator:\n- name: x\n  literal: [a=b]\n", nil, `k/kustomization.yaml:3: this is not a valid kustomization: unknown field "literal"`},
		"a key given twice":                          {"resources: [ok.yaml]\nresources: []\n", nil, `k/kustomization.yaml:2: key "resources" is given twice, first in line 1`},
		"a field of the wrong kind":                  {"resources: [ok.yaml]\nimages: x\n", nil, "k/kustomization.yaml:2: this is not a valid kustomization: cannot unmarshal string"},
		"a folder without a kustomization":           {"resources: [sub]\n", []string{"k/sub/x.yaml", pool}, "folder k/sub has no kustomization.yaml"},
		"two kustomizations in one folder":           {"resources: [ok.yaml]\n", []string{"k/Kustomization", "resources: []"}, "keep one"},
		"a cycle":                                    {"resources: [../a]\n", []string{"a/kustomization.yaml", "resources: [../k]\n"}, "this is a cycle"},
		"itself":                                     {"resources: [.]\n", nil, "this is a cycle"},
		"a kustomization in two documents":           {"resources: []\n---\nresources: []\n", nil, "exactly one document"},
		"a kustomization that is a list":             {"- a\n", nil, "must be a map"},
		"a resource that is not YAML":                {"resources: [bad.yaml]\n", []string{"k/bad.yaml", "a: b\nc: [\n"}, "k/bad.yaml:"},
		"the environment of the controller":          {"secretGenerator: [{name: x, envs: [e]}]\ngeneratorOptions: {disableNameSuffixHash: true}\n", []string{"k/e", "AWS_SECRET_ACCESS_KEY\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := tree("k/kustomization.yaml", c.kustomization, "k/ok.yaml", pool)
			for i := 0; i+1 < len(c.more); i += 2 {
				fsys[c.more[i]] = &fstest.MapFile{Data: []byte(c.more[i+1]), Mode: 0o644}
				if target, ok := strings.CutPrefix(c.more[i+1], "-> "); ok {
					fsys[c.more[i]] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
				}
			}
			d, got := problemsOf(fsys, "k", Options{})
			if what := tr.sprung(); what != "" {
				t.Fatalf("something reached out: %s", what)
			}
			if !strings.Contains(got, c.want) || (c.want != "" && d.Set.Len() > 0) || strings.Contains(got, "hunter2") {
				t.Errorf("got %d objects and\n%s\nwant\n%s", d.Set.Len(), got, c.want)
			}
			for _, i := range d.Set.Items() {
				if strings.Contains(fmt.Sprint(i.Object), "hunter2") || strings.Contains(fmt.Sprint(i.Object), "aHVudGVyMg") {
					t.Errorf("the environment is in %s", i.Key)
				}
			}
		})
	}
}

func TestBombsAndFloodsAreLimited(t *testing.T) {
	lol := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		lol += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	var diamonds []string
	for i := range 11 {
		diamonds = append(diamonds, fmt.Sprintf("d%d/a/kustomization.yaml", i), fmt.Sprintf("namePrefix: a-\nresources: [../../d%d/both]\n", i+1),
			fmt.Sprintf("d%d/b/kustomization.yaml", i), fmt.Sprintf("namePrefix: b-\nresources: [../../d%d/both]\n", i+1),
			fmt.Sprintf("d%d/both/kustomization.yaml", i), "resources: [../a, ../b]\n")
	}
	diamonds = append(diamonds, "d11/both/kustomization.yaml", "resources: [x.yaml]\n", "d11/both/x.yaml", pool)
	chain := []string{"c50/kustomization.yaml", "resources: []\n"}
	for i := range 50 {
		chain = append(chain, fmt.Sprintf("c%d/kustomization.yaml", i), fmt.Sprintf("resources: [../c%d]\n", i+1))
	}
	var aliases, generators strings.Builder
	for i := range 50 {
		fmt.Fprintf(&aliases, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\nx: &x [%s]\ny: &y [%s]\nz: [%s]\n", i,
			strings.Repeat("1,", 50), strings.Repeat("*x,", 50), strings.Repeat("*y,", 50))
		fmt.Fprintf(&generators, "- {name: g%d, files: [big]}\n", i)
	}
	for name, c := range map[string]struct {
		files  []string
		folder string
		limits Options
	}{
		"an alias bomb in a manifest":      {[]string{"m/a.yaml", lol}, "m", Options{}},
		"an alias bomb in a kustomization": {[]string{"m/kustomization.yaml", lol}, "m", Options{}},
		"an alias bomb in a resource":      {[]string{"m/kustomization.yaml", "resources: [a.yaml]", "m/a.yaml", lol}, "m", Options{}},
		"an alias bomb in a patch":         {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches: [{path: a.yaml}]", "m/a.yaml", lol, "m/b.yaml", pool}, "m", Options{}},
		"an alias bomb in an inline patch": {[]string{"m/kustomization.yaml", "resources: [b.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(lol, "\n", "\n    "), "m/b.yaml", pool}, "m", Options{}},
		"many small alias bombs":           {[]string{"m/a.yaml", aliases.String()}, "m", Options{}},
		"one file in many config maps":     {[]string{"m/kustomization.yaml", "configMapGenerator:\n" + generators.String(), "m/big", strings.Repeat("x", 2<<20)}, "m", Options{}},
		"a document that refers to itself": {[]string{"m/a.yaml", "a: &a [*a]\n"}, "m", Options{}},
		"deep nesting":                     {[]string{"m/a.yaml", strings.Repeat("[", 5000) + strings.Repeat("]", 5000)}, "m", Options{}},
		"many objects":                     {[]string{"m/a.yaml", strings.Repeat(pool+"---\n", 30)}, "m", limited(func(l *Options) { l.Objects = 20 })},
		"many objects by kustomize":        {[]string{"m/kustomization.yaml", "resources: [a.yaml]", "m/a.yaml", strings.Repeat(pool+"---\n", 30)}, "m", limited(func(l *Options) { l.Objects = 20 })},
		"a large file":                     {[]string{"m/a.yaml", pool + strings.Repeat("#", 4000)}, "m", limited(func(l *Options) { l.FileBytes = 1000 })},
		"large files":                      {[]string{"m/a.yaml", pool, "m/b.yaml", pool}, "m", limited(func(l *Options) { l.TotalBytes = 150 })},
		"many files":                       {[]string{"m/a.yaml", pool, "m/b.yaml", pool}, "m", limited(func(l *Options) { l.Files = 1 })},
		"kustomizations of kustomizations": {diamonds, "d0/both", Options{}},
		"a long chain of kustomizations":   {chain, "c0", Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var allocated uint64
			got := ""
			allocated = allocations(func() { _, got = problemsOf(tree(c.files...), c.folder, c.limits) })
			if !strings.HasPrefix(got, "stalled LimitExceeded") && !strings.Contains(got, "exceeded max depth") {
				t.Errorf("got %s", got)
			}
			if took := time.Since(start); took > 5*time.Second || allocated > 64<<20 {
				t.Errorf("took %s and allocated %d MiB", took, allocated>>20)
			}
			t.Log(got)
		})
	}
}

func TestReplacementsThatDoubleWhatTheyCopyAreRefused(t *testing.T) {
	many := func(n int, each string) string {
		var b strings.Builder
		b.WriteString("resources: [a.yaml]\nreplacements:\n")
		for i := range n {
			b.WriteString(strings.ReplaceAll(each, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	const options = "options: {create: true}"
	for name, c := range map[string]struct {
		kustomization string
		more          []string
		refused       bool
	}{
		"a map into itself":           {many(40, "- source: {kind: NodePool, fieldPath: spec}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.a#], "+options+"}]\n"), nil, true},
		"a map in one list of fields": {"resources: [a.yaml]\nreplacements:\n- source: {kind: NodePool, fieldPath: spec}\n  targets: [{select: {kind: NodePool}, fieldPaths: [" + strings.Repeat("spec.x, ", 40) + "spec.y], " + options + "}]\n", nil, true},
		"a text onto itself":          {many(40, "- source: {kind: NodePool, fieldPath: metadata.name}\n  targets: [{select: {kind: NodePool}, fieldPaths: [metadata.name], options: {delimiter: '-', index: 9}}]\n"), nil, true},
		"a map by way of a single value": {"resources: [a.yaml]\nreplacements:\n- source: {kind: NodePool, fieldPath: spec}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.weight]}]\n" +
			strings.TrimPrefix(many(40, "- source: {kind: NodePool, fieldPath: spec.weight}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.weight.a#], "+options+"}]\n"), "resources: [a.yaml]\nreplacements:\n"), nil, true},
		"a field that only a patch adds": {many(40, "- source: {kind: NodePool, fieldPath: spec.added}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.added.a#], "+options+"}]\n"), nil, true},
		"a list of them in a file":       {"resources: [a.yaml]\nreplacements: [{path: r.yaml}]\n", []string{"x/r.yaml", strings.Repeat("- source: {kind: NodePool, fieldPath: spec}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.a], "+options+"}]\n", 40)}, true},
		"hundreds of single values":      {many(300, "- source: {kind: NodePool, fieldPath: spec.weight}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.w#], "+options+"}]\n"), nil, false},
		"a few maps":                     {many(5, "- source: {kind: NodePool, fieldPath: spec.limits}\n  targets: [{select: {kind: NodePool}, fieldPaths: [spec.l#], "+options+"}]\n"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, got := problemsOf(tree(append(c.more, "x/kustomization.yaml", c.kustomization, "x/a.yaml", pool)...), "x", Options{})
			if refused := strings.Contains(got, "can double the size"); refused != c.refused || (d.Set.Len() == 1) == c.refused {
				t.Errorf("%d objects: %s", d.Set.Len(), got)
			}
		})
	}
}

func limited(f func(*Options)) Options {
	var l Options
	f(&l)
	return l
}

func TestASourceThatBreaksIsNotARepositoryThatShrank(t *testing.T) {
	for name, files := range map[string][]string{
		"plain":     {"m/a.yaml", pool, "m/b.yaml", "x"},
		"kustomize": {"m/kustomization.yaml", "resources: [b.yaml]", "m/b.yaml", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Load(brokenFS{tree(files...)}, "m", Options{})
			class, _, _ := state.Classify(err)
			if !errors.Is(err, errDisk) || class != state.Retry || d.Set.Len() > 0 {
				t.Errorf("got %v of class %s with %d objects", err, class, d.Set.Len())
			}
		})
	}
}

var errDisk = errors.New("input/output error")

// brokenFS fails to read files called b.yaml.
type brokenFS struct{ fstest.MapFS }

func (b brokenFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "b.yaml") {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errDisk}
	}
	return b.MapFS.Open(name)
}

func (b brokenFS) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, "b.yaml") {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errDisk}
	}
	return b.MapFS.ReadFile(name)
}
