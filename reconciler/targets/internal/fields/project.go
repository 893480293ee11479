package fields

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Project writes the live object in the form of the desired one: where a correction
// would change nothing, it is what is desired; where it would, it is what is live. So
// that comparing the result with desired shows exactly what a correction changes, "live
// → Git", without the noise of defaults, quantities and other managers' fields.
//
// merged is what live would be after the correction; ours is what we own in
// live today (fields that we own and that are no longer desired must show as going
// away). None of the arguments is changed; the result shares parts with them.
func Project(live, merged, desired map[string]any, ours Tree) map[string]any {
	out, ok := project(some(live), some(merged), some(desired), ours)
	if m, isMap := out.(map[string]any); ok && isMap {
		return m
	}
	return map[string]any{}
}

// maybe is a value that may be absent, which is not the same as nil.
type maybe struct {
	v  any
	ok bool
}

func some(v any) maybe { return maybe{v, true} }

func at(m map[string]any, key string) maybe {
	v, ok := m[key]
	return maybe{v, ok}
}

func project(live, merged, desired maybe, ours Tree) (any, bool) {
	switch {
	case live.ok == merged.ok && state.Equal(live.v, merged.v):
		return desired.v, desired.ok
	case !live.ok:
		return nil, false
	case !merged.ok:
		return live.v, true
	}
	l, lm := live.v.(map[string]any)
	m, mm := merged.v.(map[string]any)
	if lm && mm {
		w, _ := desired.v.(map[string]any)
		out := projectMap(l, m, w, ours)
		return out, desired.ok || len(out) > 0
	}
	ll, lok := live.v.([]any)
	ml, mok := merged.v.([]any)
	if lok && mok && (desired.ok || ours != nil) {
		w, _ := desired.v.([]any)
		return projectList(ll, ml, w, ours), true
	}
	return live.v, desired.ok || ours != nil
}

func projectMap(l, m, w map[string]any, ours Tree) map[string]any {
	out := make(map[string]any, len(w))
	for _, side := range []map[string]any{l, m, w} {
		for k := range side {
			if v, ok := project(at(l, k), at(m, k), at(w, k), child(ours, k)); ok {
				out[k] = v
			}
		}
	}
	return out
}

func projectList(l, m, w []any, ours Tree) []any {
	if keys := listKeys(ours, l, m); keys != nil {
		return projectKeyed(l, m, w, ours, keys)
	}
	out := []any{}
	if len(l) == len(m) && len(m) == len(w) {
		for i := range l {
			if v, ok := project(some(l[i]), some(m[i]), some(w[i]), All()); ok {
				out = append(out, v)
			}
		}
		return out
	}
	for _, e := range l {
		same := slices.IndexFunc(m, func(o any) bool { return state.Equal(e, o) })
		switch {
		case same < 0:
			out = append(out, e)
		case len(m) == len(w):
			out = append(out, w[same])
		case slices.ContainsFunc(w, func(o any) bool { return state.Equal(e, o) }):
			out = append(out, e)
		case composite(e):
			// It stays, and cannot be matched with what is desired.
			out = append(out, e)
		}
	}
	return out
}

// projectKeyed pairs the elements by their keys. Elements of others, which
// stay, are left out.
func projectKeyed(l, m, w []any, ours Tree, keys []string) []any {
	out := []any{}
	projected := make([]bool, len(l))
	for _, want := range w {
		i := find(l, want, keys)
		if i < 0 {
			continue
		}
		projected[i] = true
		j := find(m, l[i], keys)
		merged := maybe{}
		if j >= 0 {
			merged = some(m[j])
		}
		if v, ok := project(some(l[i]), merged, some(want), element(ours, l[i])); ok {
			out = append(out, v)
		}
	}
	for i, e := range l {
		if !projected[i] && find(m, e, keys) < 0 {
			out = append(out, e)
		}
	}
	return out
}

// find returns the index of the element that has e's keys; keys that e leaves
// to a default match anything.
func find(list []any, e any, keys []string) int {
	want, _ := e.(map[string]any)
	return slices.IndexFunc(list, func(o any) bool {
		have, ok := o.(map[string]any)
		if !ok || want == nil {
			return false
		}
		matched := false
		for _, k := range keys {
			v, given := want[k]
			if !given {
				continue
			}
			if !state.Equal(v, have[k]) {
				return false
			}
			matched = true
		}
		return matched
	})
}

// listKeys names the fields that distinguish the elements: those that the API
// server uses, where our claim shows them, else the customary ones.
func listKeys(ours Tree, lists ...[]any) []string {
	for key := range ours {
		if rest, ok := strings.CutPrefix(key, "k:"); ok {
			if keys := elementKeys(rest); keys != nil {
				names := make([]string, 0, len(keys))
				for k := range keys {
					names = append(names, k)
				}
				slices.Sort(names)
				return names
			}
		}
	}
	for _, name := range []string{"name", "key", "type", "id", "alias"} {
		if uniquely(name, lists...) {
			return []string{name}
		}
	}
	return nil
}

// uniquely reports whether every element of each list has another string in
// that field, and at least one list has elements.
func uniquely(name string, lists ...[]any) bool {
	some := false
	for _, list := range lists {
		found := map[string]bool{}
		for _, e := range list {
			m, _ := e.(map[string]any)
			v, ok := m[name].(string)
			if !ok || found[v] {
				return false
			}
			found[v], some = true, true
		}
	}
	return some
}

// element is the part of the tree that concerns one list element.
func element(ours Tree, e any) Tree {
	if len(ours) == 0 {
		return ours
	}
	m, _ := e.(map[string]any)
	for key := range ours {
		if rest, ok := strings.CutPrefix(key, "k:"); ok && m != nil {
			if keys := elementKeys(rest); keys != nil && hasKeys(m, keys) {
				return branch(ours, key)
			}
		}
	}
	if text, err := json.Marshal(e); err == nil {
		return branch(ours, "v:"+string(text))
	}
	return nil
}

func composite(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
