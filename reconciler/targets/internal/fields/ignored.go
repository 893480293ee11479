package fields

import (
	"maps"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
)

// Omitted is a desired object as an update sends it, so that ignored fields are neither owned nor
// written.
type Omitted struct {
	// Object is without the ignored fields.
	Object map[string]any
	// Kept is true where it has some all the same, in a list or a map that is applied as a whole.
	Kept bool
}

// Omit takes the fields that the pointers name out of a desired object in which they have their live
// values. The manager is the one that sends the update.
func Omit(desired, live map[string]any, manager string, pointers []string) Omitted {
	out := Omitted{Object: desired}
	for _, text := range pointers {
		p, err := pointer.Parse(text)
		if err != nil {
			continue
		}
		at, ok := p.In(desired, live)
		switch {
		case !ok: // Of an element that is made.
		case granular(live, at):
			out.Object, _ = p.Remove(out.Object).(map[string]any)
		default:
			// What the desired object does not declare is kept in the list or map that it declares.
			if wholeDeclared(desired, live, p, at, manager) {
				out.Kept = true
				if value, present := at.Get(live); present {
					out.Object, _ = p.Set(out.Object, value).(map[string]any)
				}
			}
		}
	}
	return out
}

// wholeDeclared reports whether a field is in a list or a map that is applied as a whole, and that the
// desired object declares.
func wholeDeclared(desired, live map[string]any, p, at pointer.Pointer, manager string) bool {
	for n := range p {
		if _, declared := p[:n+1].Get(desired); !declared {
			if above, _ := p[:n].Get(desired); state.Equal(above, map[string]any{}) {
				return wholeOfOthers(live, at[:n+1], manager)
			}
			return !granular(live, at[:n+1])
		}
	}
	return true
}

// wholeOfOthers reports whether the map around a field is one that managers but for the given one claim as
// a whole, and none claims the fields of. Our own claim to a map that is declared empty has one form for both.
func wholeOfOthers(live map[string]any, at pointer.Pointer, manager string) bool {
	found := false
	for _, e := range Entries(live) {
		owned := ownedAs(e.Fields, at, live)
		if owned.beside {
			return false
		}
		found = found || owned.whole && e.Manager != manager
	}
	return found
}

// granular reports whether a field of a live object can have an owner of its own. Of an element of a
// list that is so where some manager owns elements of the list by their keys.
func granular(live map[string]any, at pointer.Pointer) bool {
	keyed := !at.Listed(live)
	for _, e := range Entries(live) {
		owned := ownedAs(e.Fields, at, live)
		if owned.whole {
			return false
		}
		keyed = keyed || owned.keyed
	}
	return keyed
}

// ownership is what a claim is to, of a field and what is above it.
type ownership struct {
	// whole is true for a list or map above the field as one; where the field is of a map that is claimed
	// without content, the claim is of the same form.
	whole bool
	// keyed is true where all elements of lists above the field are claimed by their keys.
	keyed bool
	// beside is true for content of the map that the field is in.
	beside bool
}

func ownedAs(t Tree, at pointer.Pointer, value any) ownership {
	out := ownership{}
	for i, part := range at {
		switch {
		case t == nil:
			return out
		case len(t) == 0:
			return ownership{whole: true}
		}
		key, next := keyOf(t, value, part)
		if _, isList := value.([]any); isList {
			if key == "" {
				return ownership{}
			}
			out.keyed = true
		}
		out.beside = i == len(at)-1 && ownsContent(t)
		t, value = branch(t, key), next
	}
	return out
}

// keyOf is the key in a claim of the field or element of that name, and its value.
func keyOf(t Tree, value any, part string) (key string, next any) {
	switch v := value.(type) {
	case map[string]any:
		return "f:" + part, v[part]
	case []any:
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= len(v) {
			return "", nil
		}
		return elementKey(t, v[i]), v[i]
	}
	return "f:" + part, nil
}

// Release is a claim to a live object without the fields that the pointers name in the desired one, and
// which of them it was to.
func Release(live, desired map[string]any, claim Tree, pointers []string) (left Tree, released []string) {
	left = claim
	for _, text := range pointers {
		p, err := pointer.Parse(text)
		if err != nil {
			continue
		}
		at, ok := p.In(desired, live)
		if !ok {
			continue
		}
		if rest, found := release(left, at, live); found {
			left, released = rest, append(released, text)
		}
	}
	return left, released
}

func release(t Tree, at pointer.Pointer, value any) (Tree, bool) {
	if len(t) == 0 || len(at) == 0 {
		return t, false
	}
	key, next := keyOf(t, value, at[0])
	sub, found := t[key].(map[string]any)
	if !found {
		return t, false
	}
	out := maps.Clone(t)
	if len(at) == 1 {
		delete(out, key)
		return out, true
	}
	left, found := release(sub, at[1:], next)
	if !found {
		return t, false
	}
	out[key] = left
	if !ownsContent(left) && strings.HasPrefix(key, "f:") {
		delete(out, key)
	}
	return out, true
}

// withoutIgnored is an object without the fields that the pointers name, as far as they are in no
// list: its elements may have another order than in the repository.
func withoutIgnored(object map[string]any, pointers []string) map[string]any {
	for _, text := range pointers {
		if p, err := pointer.Parse(text); err == nil && !p.Listed(object) {
			object, _ = p.Remove(object).(map[string]any)
		}
	}
	return object
}

// Extra lists, as JSON pointers, what the spec of a live object has and base has not, but for what the
// pointers name.
func Extra(live, base map[string]any, pointers []string) []string {
	extra, _ := withoutIgnored(live, pointers)["spec"].(map[string]any)
	return Missing(extra, base, "/spec")
}
