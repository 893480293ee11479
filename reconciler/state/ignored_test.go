package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheHashOfAnItemIsWithoutWhatIsIgnored(t *testing.T) {
	object := func(replicas int64, image string) map[string]any {
		return map[string]any{"spec": map[string]any{"replicas": replicas, "image": image}}
	}
	hash := func(replicas int64, image string, ignore ...string) string {
		return Item{Object: object(replicas, image), CorrectionPolicy: CorrectionPolicy{Ignore: ignore}}.Hash()
	}
	if hash(1, "a", "/spec/replicas") != hash(2, "a", "/spec/replicas") {
		t.Error("an ignored value makes a difference")
	}
	if hash(1, "a", "/spec/replicas") == hash(1, "b", "/spec/replicas") {
		t.Error("the value beside it makes none")
	}
	if hash(1, "a") == hash(1, "a", "/spec/replicas") {
		t.Error("that a field is ignored from now on makes no difference: its ownership would not be given up")
	}
	if hash(1, "a") == hash(1, "a", "/spec/limits") {
		t.Error("that a field is no longer ignored makes no difference where none is declared: it would not be corrected")
	}
	if hash(1, "a") != Hash(object(1, "a")) {
		t.Error("without anything ignored it is not that of the object")
	}
}

func TestLiveValuesOfIgnoredFieldsAreKept(t *testing.T) {
	desired := map[string]any{"spec": map[string]any{
		"replicas": int64(2), "paused": true,
		"containers": []any{map[string]any{"name": "a", "image": "1"}, map[string]any{"name": "new", "image": "1"}},
	}}
	live := map[string]any{"spec": map[string]any{
		"replicas": int64(5), "extra": "x",
		"containers": []any{map[string]any{"name": "side", "image": "9"}, map[string]any{"name": "a", "image": "2"}},
	}}
	values := IgnoredValues([]string{"/spec/containers/0/image", "/spec/containers/1/image", "/spec/extra", "/spec/paused", "/spec/replicas", "no pointer"}, desired, live)
	want := []IgnoredValue{
		{"/spec/containers/0/image", "2", true, true}, {"/spec/extra", "x", true, false}, {"/spec/paused", nil, false, true}, {"/spec/replicas", int64(5), true, true},
	}
	if d := cmp.Diff(want, values); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
	kept := map[string]any{"spec": map[string]any{
		"replicas": int64(5), "extra": "x",
		"containers": []any{map[string]any{"name": "a", "image": "2"}, map[string]any{"name": "new", "image": "1"}},
	}}
	if d := cmp.Diff(kept, Keep(desired, values)); d != "" {
		t.Errorf("what is desired (-want +got):\n%s", d)
	}
	delete(kept["spec"].(map[string]any), "extra")
	if d := cmp.Diff(kept, KeepDeclared(desired, values)); d != "" {
		t.Errorf("of what is declared (-want +got):\n%s", d)
	}
}
