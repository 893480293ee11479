package manifest

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/state"
)

func TestFieldsAreFoundByTheirPath(t *testing.T) {
	docs, problems, err := NewTree(nil, Limits{}).Parse("f.yaml", []byte(strings.TrimLeft(`
# comment
apiVersion: v1
kind: X
base: &base
  shared:
    deep: 1
spec:
  <<: *base
  list:
  - a: 1
  - a: 2
    b: 3
  labels:
    example.com/x: y
---
kind: Y
`, "\n")))
	if err != nil || len(problems) > 0 || len(docs) != 2 || docs[0].Line != 2 || docs[1].Line != 16 {
		t.Fatal(docs, problems, err)
	}
	for path, want := range map[string]struct {
		line  int
		found bool
	}{
		"kind":                           {3, true},
		"spec/list/1/b":                  {12, true},
		"spec/list/1/c":                  {11, false},
		"spec/list/7":                    {9, false},
		"spec/labels/example.com/x":      {14, true},
		"spec/labels/example/com~x/more": {13, false},
		"spec/shared/deep":               {6, true},
		"none":                           {2, false},
	} {
		fields := strings.Split(path, "/")
		if strings.HasPrefix(path, "spec/labels/example.com") {
			fields = []string{"spec", "labels", "example", "com/x"}
		}
		if line, found := docs[0].Find(fields); line != want.line || found != want.found {
			t.Errorf("%s: line %d, %v", path, line, found)
		}
	}
}

func TestDocumentsAreSplitAsKubectlDoes(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lines []int
	}{
		"nothing":                      {"", nil},
		"only separators":              {"---\n---\n---", nil},
		"only comments":                {"# a\n---\n# b\n", nil},
		"a document after a comment":   {"# a\n\nb: c\n", []int{3}},
		"a separator with a comment":   {"--- # first\na: b\n--- # second\nc: d\n", []int{2, 4}},
		"Windows line ends":            {"a: b\r\n---\r\nc: d\r\n", []int{1, 3}},
		"a byte order mark":            {"\xef\xbb\xbfa: b\n", []int{1}},
		"dashes in a text":             {"a: |\n  ---\n  b\n---\nc: d\n", []int{1, 5}},
		"more dashes than a separator": {"a: b\n# ----\n---\nc: d\n", []int{1, 4}},
		"a null document":              {"null\n---\na: b\n", []int{3}},
		"a document end with no line":  {"a: b\n...\n---\nc: d\n", []int{1, 4}},
		"an object on the separator":   {"--- {a: b}\n--- {c: d}\n", []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems, err := NewTree(nil, Limits{}).Parse("f", []byte(c.text))
			if err != nil || len(problems) > 0 || len(docs) != len(c.lines) {
				t.Fatalf("%d documents, %v, %v", len(docs), problems, err)
			}
			for i, d := range docs {
				if d.Line != c.lines[i] {
					t.Errorf("document %d is in line %d, want %d", i, d.Line, c.lines[i])
				}
			}
		})
	}
}

func TestNamesAreCheckedAsTheirKindAllows(t *testing.T) {
	for name, c := range map[string]struct {
		apiVersion, kind, name string
		ok                     bool
	}{
		"a role with colons":       {"rbac.authorization.k8s.io/v1", "ClusterRole", "system:node", true},
		"a role with a slash":      {"rbac.authorization.k8s.io/v1", "ClusterRole", "a/b", false},
		"a pool with a capital":    {"karpenter.sh/v1", "NodePool", "Gpu", false},
		"a pool with dots":         {"karpenter.sh/v1", "NodePool", "gpu.a-1", true},
		"a foreign kind's capital": {"example.com/v1", "Thing", "Thing_1", true},
		"dots for a name":          {"example.com/v1", "Thing", "..", false},
		"a very long name":         {"example.com/v1", "Thing", strings.Repeat("a", 254), false},
	} {
		o := Object{Item: state.Item{Object: map[string]any{"apiVersion": c.apiVersion, "kind": c.kind, "metadata": map[string]any{"name": c.name}}}}
		item, err := o.Checked()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && item.Key != (state.Key{Target: "kubernetes", Group: strings.Split(c.apiVersion, "/")[0], Kind: c.kind, Name: c.name}) {
			t.Errorf("%s: %+v", name, item.Key)
		}
	}
}

// A part of what is rendered is kept as JSON, within a budget in bytes.
func TestTheJSONOfAnObjectHasOnlyWhatIsRead(t *testing.T) {
	o := Object{Item: state.Item{Object: map[string]any{"kind": "A"}, Origin: state.Origin{File: "a.yaml", Line: 1}}}
	if raw, err := json.Marshal(o); err != nil || string(raw) != `{"object":{"kind":"A"},"origin":{"File":"a.yaml","Line":1}}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestSuggestionsAreNearOrNotMade(t *testing.T) {
	known := []string{"weight", "template", "limits", "disruption", "replicas"}
	for given, want := range map[string]string{
		"wieght": "weight", "Weight": "weight", "limit": "limits", "disruptoin": "disruption", "xyz": "", "": "", "consolidation": "",
	} {
		got := Suggestion(given, known)
		if (want == "" && got != "") || (want != "" && !strings.Contains(got, `"`+want+`"`)) {
			t.Errorf("%q: %q", given, got)
		}
	}
}

func TestLinksAreResolvedWithinTheTree(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
	}
	tree := NewTree(fstest.MapFS{
		"a/file": {Data: []byte("x")}, "b": link("a"), "c/up": link("../b/file"), "out": link("../x"), "abs": link("/etc"), "l1": link("l2"), "l2": link("l1"),
	}, Limits{})
	for name, want := range map[string]string{"b/file": "a/file", "c/up": "a/file", "a/../b": "a", "out": "", "abs": "", "l1": "", "gone": ""} {
		if got, err := tree.WithoutLinks(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if tree.Err() != nil {
		t.Error("a user's problem made the tree unusable: ", tree.Err())
	}
}
