package releases

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestEveryFolderIsARelease(t *testing.T) {
	entries, err := fs.ReadDir(frozen, folder)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		folders = append(folders, e.Name())
	}
	names := Names()
	slices.Sort(names)
	if d := cmp.Diff(names, folders); d != "" {
		t.Errorf("names and folders (-names +folders):\n%s", d)
	}
	if _, err := Read("serial-0"); err == nil {
		t.Error("a release that there is not is read")
	}
}

// What a release left is installed in the order of the file, so that an owner comes before what names its UID.
func TestAReleaseHasWhatItsSyncHasApplied(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			r, err := Read(name)
			if err != nil {
				t.Fatal(err)
			}
			kinds, model, uids := []string{}, map[string]string{}, map[string]bool{}
			for i, text := range r.Objects {
				if !strings.Contains(text, fixtureName) {
					t.Errorf("object %d has no place for the fixture's name", i)
				}
				object, err := decode(text, []string{fixtureName, "x", gitURL, "http://git", revision, "main@sha1:1"})
				if err != nil {
					t.Fatal(err)
				}
				if len(object.GetManagedFields()) != 1 || object.GetUID() == "" {
					t.Errorf("%s %s has the managers %v and the UID %q", object.GetKind(), object.GetName(), object.GetManagedFields(), object.GetUID())
				}
				for _, owner := range object.GetOwnerReferences() {
					if !uids[string(owner.UID)] {
						t.Errorf("%s %s has an owner that does not come before it", object.GetKind(), object.GetName())
					}
				}
				uids[string(object.GetUID())] = true
				kinds = append(kinds, object.GetKind())
				if value := valueOf(object); value != "" {
					model[object.GetKind()+"/"+strings.TrimPrefix(object.GetName(), "x-")] = value
				}
			}
			if kinds[0] != "Sync" {
				t.Errorf("the first object is a %s", kinds[0])
			}
			for key, value := range Model() {
				if kind, _, _ := strings.Cut(key, "/"); kind != "Secret" && kind != "ServiceAccount" && model[key] != value {
					t.Errorf("%s has the value %q, and the model %q", key, model[key], value)
				}
				if kind, _, _ := strings.Cut(key, "/"); !slices.Contains(kinds, kind) {
					t.Errorf("there is no %s", kind)
				}
			}
		})
	}
}

// valueOf is what the fixture's model has of an object; empty for an object that is none of it.
func valueOf(object *unstructured.Unstructured) string {
	path := []string{"data", "value"}
	if object.GetKind() == "NodePool" {
		path = []string{"spec", "template", "metadata", "labels", "value"}
	}
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	want, err := Read(Names()[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "release")
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	for file := range want.files() {
		was, err := frozen.ReadFile(folder + "/" + Names()[0] + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(was), string(is)); d != "" {
			t.Errorf("%s (-frozen +written):\n%s", file, d)
		}
	}
	if err := want.Write(filepath.Join(dir, "objects.yaml", "x")); err == nil {
		t.Error("a release is written below a file")
	}
}

func TestAFrozenObjectIsWithoutWhatTheAPIServerSets(t *testing.T) {
	in := Destination{System: "pw-case", Apps: "apps-case", Name: "case", URL: "http://127.0.0.1:1/x.git", Revision: "main@sha1:abc"}
	object := func(kind string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "poolwright.dev/v1alpha1", "kind": kind,
			"metadata": map[string]any{
				"name": "case-a", "namespace": "apps-case", "uid": "1", "resourceVersion": "7", "generation": int64(2), "creationTimestamp": "2026-01-01T00:00:00Z",
				"managedFields": []any{
					map[string]any{"manager": "kubectl", "operation": "Update"}, map[string]any{"manager": "poolwright", "operation": "Apply", "fieldsV1": map[string]any{"f:data": map[string]any{}}},
				},
			},
			"spec":   map[string]any{"url": "http://127.0.0.1:1/x.git"},
			"status": map[string]any{"revision": "main@sha1:abc"},
		}}
	}
	texts, err := in.texts([]unstructured.Unstructured{object("Sync"), object("Cluster")})
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for _, text := range texts {
		var read map[string]any
		if err := yaml.Unmarshal([]byte(text), &read); err != nil {
			t.Fatal(err)
		}
		got = append(got, read)
	}
	metadata := map[string]any{
		"name": "${fixture}-a", "namespace": "apps-${fixture}", "uid": "1", "managedFields": []any{map[string]any{"manager": "poolwright", "operation": "Apply"}},
	}
	want := []map[string]any{
		{"apiVersion": "poolwright.dev/v1alpha1", "kind": "Sync", "metadata": metadata, "spec": map[string]any{"url": "${git}"}, "status": map[string]any{"revision": "${revision}"}},
		{"apiVersion": "poolwright.dev/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": map[string]any{"url": "${git}"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("frozen (-want +got):\n%s", d)
	}
}
