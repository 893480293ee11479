package pointer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

type m = map[string]any

func deployment() m {
	return m{"spec": m{
		"replicas": int64(2), "selector": m{"app": "web"}, "empty": m{},
		"containers": []any{m{"name": "web", "image": "a"}, m{"name": "side", "image": "b"}},
		"args":       []any{"x", "y"},
	}}
}

func TestAPointerIsReadAsRFC6901HasIt(t *testing.T) {
	tests := []struct {
		name, text string
		want       Pointer
		fails      bool
	}{
		{"a field", "/spec/replicas", Pointer{"spec", "replicas"}, false},
		{"escapes", "/a~1b/c~0d/~01", Pointer{"a/b", "c~d", "~1"}, false},
		{"an empty name", "/spec/", Pointer{"spec", ""}, false},
		{"the whole", "", Pointer{}, false},
		{"without a slash", "spec/replicas", nil, true},
		{"a lone tilde", "/a~b", nil, true},
		{"a tilde at the end", "/a~", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if (err != nil) != tt.fails {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if !tt.fails && got.String() != tt.text {
				t.Errorf("written as %q", got)
			}
		})
	}
}

func parsed(t *testing.T, text string) Pointer {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAValueIsChangedInACopy(t *testing.T) {
	tests := []struct {
		name, at string
		change   func(p Pointer, v any) any
		want     func(m)
	}{
		{"a field is set", "/spec/replicas", set(int64(5)), func(o m) { o["spec"].(m)["replicas"] = int64(5) }},
		{"a field of an element is set", "/spec/containers/1/image", set("c"), func(o m) { element(o, 1)["image"] = "c" }},
		{"a field of an element that is missing is not set", "/spec/containers/2/image", set("c"), func(m) {}},
		{"a field of a text is not set", "/spec/replicas/x", set("c"), func(m) {}},
		{"maps that are missing are made", "/spec/a/b", set("c"), func(o m) { o["spec"].(m)["a"] = m{"b": "c"} }},
		{"a field is removed", "/spec/replicas", Pointer.Remove, func(o m) { delete(o["spec"].(m), "replicas") }},
		{"a map that has nothing left is removed", "/spec/selector/app", Pointer.Remove, func(o m) { delete(o["spec"].(m), "selector") }},
		{"an empty map that nothing was removed from stays", "/spec/empty/x", Pointer.Remove, func(m) {}},
		{"a field of an element is removed", "/spec/containers/0/image", Pointer.Remove, func(o m) { delete(element(o, 0), "image") }},
		{"an element is not removed", "/spec/containers/0", Pointer.Remove, func(m) {}},
		{"an index that is written otherwise is none", "/spec/containers/00/image", Pointer.Remove, func(m) {}},
		{"the whole is not removed", "", Pointer.Remove, func(m) {}},
		{"what is missing is not removed", "/spec/x/y", Pointer.Remove, func(m) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			given, want := deployment(), deployment()
			tt.want(want)
			if d := cmp.Diff(any(want), tt.change(parsed(t, tt.at), given)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(deployment(), given); d != "" {
				t.Errorf("what was given is changed:\n%s", d)
			}
		})
	}
}

func set(to any) func(Pointer, any) any {
	return func(p Pointer, v any) any { return p.Set(v, to) }
}

func element(o m, i int) m { return o["spec"].(m)["containers"].([]any)[i].(m) }

func TestAnElementIsFoundByItsName(t *testing.T) {
	live := deployment()
	live["spec"].(m)["containers"] = []any{m{"name": "injected"}, m{"name": "side", "image": "b"}, m{"name": "web", "image": "a"}}
	tests := []struct {
		name, at, want string
	}{
		{"no list", "/spec/replicas", "/spec/replicas"},
		{"the first is the third", "/spec/containers/0/image", "/spec/containers/2/image"},
		{"the second stays", "/spec/containers/1/image", "/spec/containers/1/image"},
		{"an element without a name has its index", "/spec/args/1", "/spec/args/1"},
		{"one that is not declared", "/spec/containers/2/image", ""},
		{"a field that neither has", "/spec/x/y", "/spec/x/y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parsed(t, tt.at).In(deployment(), live)
			if ok != (tt.want != "") || got.String() != tt.want {
				t.Errorf("%s, %v", got, ok)
			}
		})
	}
	if _, ok := parsed(t, "/spec/containers/0/image").In(deployment(), m{"spec": m{"containers": []any{m{"name": "side"}}}}); ok {
		t.Error("an element that is not live is found")
	}
	for _, at := range []string{"/spec/volumes/0/size", "/spec/volumes/0"} {
		if _, ok := parsed(t, at).In(deployment(), m{"spec": m{"volumes": []any{m{"size": "1Gi"}}}}); ok {
			t.Errorf("%s: an element of a list that is not declared is found", at)
		}
	}
	if _, ok := parsed(t, "/spec/args/1").In(deployment(), m{"spec": m{"args": []any{"x"}}}); ok {
		t.Error("an element behind the end is found")
	}
	declared := m{"requirements": []any{m{"key": "cpu", "operator": "Gt"}, m{"key": "zone"}, m{"key": "cpu", "operator": "Lt"}}}
	for _, tt := range []struct {
		name, at, want string
		live           []any
	}{
		{"the first of one name", "/requirements/0/values", "/requirements/1/values", []any{m{"key": "zone"}, m{"key": "cpu"}, m{"key": "cpu"}}},
		{"the second of one name", "/requirements/2/values", "/requirements/2/values", []any{m{"key": "zone"}, m{"key": "cpu"}, m{"key": "cpu"}}},
		{"one of more than there are live", "/requirements/0/values", "", []any{m{"key": "zone"}, m{"key": "cpu"}}},
		{"one of fewer than there are live", "/requirements/2/values", "", []any{m{"key": "cpu"}, m{"key": "cpu"}, m{"key": "cpu"}}},
		{"the only one of its name", "/requirements/1/values", "/requirements/0/values", []any{m{"key": "zone"}, m{"key": "cpu"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parsed(t, tt.at).In(declared, m{"requirements": tt.live})
			if ok != (tt.want != "") || got.String() != tt.want {
				t.Errorf("%s, %v", got, ok)
			}
		})
	}
}

func TestAPointerIsReadAgainstAnObject(t *testing.T) {
	for at, want := range map[string]any{"/spec/replicas": int64(2), "/spec/containers/1/name": "side", "/spec/args/2": nil, "/spec/replicas/x": nil, "/nothing": nil} {
		got, ok := parsed(t, at).Get(deployment())
		if d := cmp.Diff(want, got); d != "" || ok != (want != nil) {
			t.Errorf("%s: %v %s", at, ok, d)
		}
	}
	if !parsed(t, "/spec/args/0").Listed(deployment()) || parsed(t, "/spec/replicas").Listed(deployment()) {
		t.Error("what leads through a list is confused")
	}
	if !parsed(t, "/spec/a/b").Within(parsed(t, "/spec/a")) || parsed(t, "/spec/ab").Within(parsed(t, "/spec/a")) || parsed(t, "/spec").Within(parsed(t, "/spec/a")) {
		t.Error("parts are confused")
	}
}
