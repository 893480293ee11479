package fields

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Overlay estimates what applying desired to live would give, without a request to the
// API server: maps are merged, lists and plain values replaced, and what we own in live
// and is not desired any more is dropped. It serves where a dry run is refused or, for
// Secrets, not desired; it fills in no defaults.
func Overlay(live, desired map[string]any, ours Tree) map[string]any {
	return merge(live, desired, orNone(ours))
}

func merge(l, w map[string]any, ours Tree) map[string]any {
	out := make(map[string]any, len(l)+len(w))
	for k, v := range l {
		want, desired := w[k]
		sub := child(ours, k)
		if desired {
			lm, lok := v.(map[string]any)
			wm, wok := want.(map[string]any)
			if lok && wok {
				out[k] = merge(lm, wm, orNone(sub))
			} else {
				out[k] = want
			}
			continue
		}
		m, isMap := v.(map[string]any)
		switch {
		case sub == nil:
			out[k] = v
		case len(sub) == 0:
			// Ours alone, and no longer desired: it goes.
		case isMap:
			if left := merge(m, nil, sub); len(left) > 0 {
				out[k] = left
			}
		}
	}
	for k, v := range w {
		if _, done := l[k]; !done {
			out[k] = v
		}
	}
	return out
}

// Without drops from object what the tree owns and keep does not hold.
func Without(object, keep map[string]any, t Tree) map[string]any {
	out := make(map[string]any, len(object))
	for k, v := range object {
		sub := child(t, k)
		kept, has := keep[k]
		m, isMap := v.(map[string]any)
		switch {
		case sub == nil, len(t) == 0:
			out[k] = v
		case isMap && len(sub) > 0:
			km, _ := kept.(map[string]any)
			if left := Without(m, km, sub); len(left) > 0 || has {
				out[k] = left
			}
		case has || len(sub) > 0:
			out[k] = v
		}
	}
	return out
}

// Unclaimed lists the fields of desired, as plain paths, that the tree does not
// own: an apply would change nothing but make them ours. Lists are read
// as a whole. What the pointers name is left out.
func Unclaimed(desired map[string]any, t Tree, pointers []string) []string {
	var out []string
	unclaimed("", withoutIgnored(desired, pointers), orNone(t), &out)
	return out
}

func unclaimed(path string, w map[string]any, t Tree, out *[]string) {
	for k, v := range w {
		at := k
		if path != "" {
			at = path + "." + k
		}
		if path == "" && (k == "apiVersion" || k == "kind") || path == "metadata" && (k == "name" || k == "namespace") {
			continue
		}
		sub := child(t, k)
		m, isMap := v.(map[string]any)
		switch {
		case sub == nil && v != nil:
			*out = append(*out, at)
		case isMap && len(sub) > 0:
			unclaimed(at, m, sub, out)
		}
	}
}

// Missing lists, as JSON pointers, the map entries that extra has and base
// has not. Lists are taken as a whole, and only where base has none.
func Missing(extra, base map[string]any, pointer string) []string {
	var out []string
	for k, v := range extra {
		b, ok := base[k]
		at := pointer + "/" + escape(k)
		if !ok {
			out = append(out, at)
			continue
		}
		em, eok := v.(map[string]any)
		bm, bok := b.(map[string]any)
		if eok && bok && !state.Equal(em, bm) {
			out = append(out, Missing(em, bm, at)...)
		}
	}
	return out
}

func escape(key string) string {
	out := make([]byte, 0, len(key))
	for i := range len(key) {
		switch key[i] {
		case '~':
			out = append(out, "~0"...)
		case '/':
			out = append(out, "~1"...)
		default:
			out = append(out, key[i])
		}
	}
	return string(out)
}

// Leaves is the tree that owns exactly the leaves of an object. Lists are leaves.
func Leaves(object map[string]any) Tree {
	out := Tree{".": map[string]any{}}
	for k, v := range object {
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			out["f:"+k] = Leaves(m)
		} else if v != nil {
			out["f:"+k] = map[string]any{}
		}
	}
	return out
}

// Differing lists the paths, as field names, of the deepest maps' entries in
// which two objects differ.
func Differing(a, b map[string]any) [][]string {
	var out [][]string
	differing(nil, a, b, &out)
	return out
}

func differing(path []string, a, b map[string]any, out *[][]string) {
	for k, v := range a {
		at := append(slices.Clip(path), k)
		other, both := b[k]
		am, aok := v.(map[string]any)
		bm, bok := other.(map[string]any)
		switch {
		case both && state.Equal(v, other):
		case aok && bok:
			differing(at, am, bm, out)
		default:
			*out = append(*out, at)
		}
	}
	for k := range b {
		if _, both := a[k]; !both {
			*out = append(*out, append(slices.Clip(path), k))
		}
	}
}
