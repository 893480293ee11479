package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/state"
)

// FieldChange is one field's difference.
type FieldChange struct {
	// Path is written as kubectl explain and people do:
	// spec.template.spec.containers[name=gpu].image. Keys that are not plain identifiers
	// are quoted: metadata.labels["app.kubernetes.io/name"].
	Path string
	// Before is nil where the field was absent; After is nil where it goes.
	// Both are nil where the difference is one between null and absence.
	Before, After any
}

// Diff lists the leaves in which two objects differ, sorted by path; each path
// occurs once. It is empty exactly for objects that are state.Equal. A nil
// object differs in all leaves of the other.
func Diff(before, after map[string]any) []FieldChange {
	var out []FieldChange
	walk("", before, after, &out)
	slices.SortFunc(out, func(a, b FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Diff is [Diff] of the change's objects, of which before and after may be other forms, and
// the difference in whose the fields are, which is no part of an object's content: its
// Before is an owner.Fields.
func (c Change) Diff(before, after map[string]any) []FieldChange {
	out := Diff(before, after)
	if c.Before == nil || c.Before.Ownership == nil {
		return out
	}
	out = append(out, FieldChange{Path: "metadata.managedFields", Before: *c.Before.Ownership})
	slices.SortStableFunc(out, func(a, b FieldChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func walk(path string, before, after any, out *[]FieldChange) {
	if state.Equal(before, after) {
		return
	}
	if b, ok := before.(map[string]any); ok {
		if a, ok := after.(map[string]any); ok && walkMaps(path, b, a, out) {
			return
		}
	}
	if b, ok := before.([]any); ok {
		if a, ok := after.([]any); ok && walkLists(path, b, a, out) {
			return
		}
	}
	*out = append(*out, FieldChange{Path: path, Before: before, After: after})
}

// walkMaps reports false where no entry differs: a nil map and an empty one.
func walkMaps(path string, before, after map[string]any, out *[]FieldChange) bool {
	n := len(*out)
	keys := slices.Collect(maps.Keys(before))
	for k := range after {
		if _, both := before[k]; !both {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		b, inBefore := before[k]
		a, inAfter := after[k]
		if inBefore && inAfter {
			walk(join(path, k), b, a, out)
			continue
		}
		// One side lacks the key: name its leaves, so that "labels.team" is shown as added
		// rather than a whole map replaced.
		leaves(join(path, k), b, a, out)
	}
	return len(*out) > n
}

// leaves reports a subtree that exists on one side only.
func leaves(path string, before, after any, out *[]FieldChange) {
	if m, ok := before.(map[string]any); ok && after == nil && len(m) > 0 {
		for k, v := range m {
			leaves(join(path, k), v, nil, out)
		}
		return
	}
	if m, ok := after.(map[string]any); ok && before == nil && len(m) > 0 {
		for k, v := range m {
			leaves(join(path, k), nil, v, out)
		}
		return
	}
	*out = append(*out, FieldChange{Path: path, Before: before, After: after})
}

// walkLists compares lists element by element where elements can be known apart
// by a name, key or type, or where the lists are equally long; it reports
// false where only the whole lists can be shown.
func walkLists(path string, before, after []any, out *[]FieldChange) bool {
	for _, id := range []string{"name", "key", "type", "id", "alias"} {
		b, okB := index(before, id)
		a, okA := index(after, id)
		if !okA || !okB {
			continue
		}
		ids := slices.Collect(maps.Keys(b))
		for k := range a {
			if _, both := b[k]; !both {
				ids = append(ids, k)
			}
		}
		n := len(*out)
		for _, k := range ids {
			at := fmt.Sprintf("%s[%s=%s]", path, id, quoteSegment(k, `[]"=`))
			if b[k] == nil || a[k] == nil {
				leaves(at, b[k], a[k], out)
				continue
			}
			walk(at, b[k], a[k], out)
		}
		// The same elements in another order: order matters to some lists.
		return len(*out) > n
	}
	if len(before) != len(after) || len(before) == 0 || !composite(before) || !composite(after) {
		return false
	}
	for i := range before {
		walk(fmt.Sprintf("%s[%d]", path, i), before[i], after[i], out)
	}
	return true
}

// index maps the elements by the value of one of their fields. It fails unless
// every element is a map with a unique string there.
func index(list []any, id string) (map[string]any, bool) {
	out := make(map[string]any, len(list))
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		k, ok := m[id].(string)
		if _, twice := out[k]; !ok || twice {
			return nil, false
		}
		out[k] = m
	}
	return out, len(list) > 0
}

// composite reports whether every element has fields of its own to show.
func composite(list []any) bool {
	return !slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return !ok })
}

func join(path, key string) string {
	quoted := quoteSegment(key, `./[]"`)
	switch {
	case quoted != key:
		return path + "[" + quoted + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// quoteSegment quotes s unless it is a plain identifier: not empty, printable, and
// without spaces, backslashes and the characters that mean something where it stands.
// So no two fields share a path, and no path hides where it leads.
func quoteSegment(s, special string) string {
	plain := s != "" && !strings.ContainsAny(s, special) && !strings.ContainsFunc(s, func(r rune) bool {
		return r == ' ' || r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r)
	})
	if plain {
		return s
	}
	return strconv.Quote(s)
}
