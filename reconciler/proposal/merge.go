package proposal

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Merge is what the merge of head into base will declare, computed from the merge base.
// both are the things that were changed on both sides, sorted: there head prevails
// here, and Git, which merges lines and not objects, may report a conflict or decide
// otherwise.
//
// A thing that one side left alone is as the other side has it. What both changed is
// put together field by field; a list is one field. Origins are head's for what head
// changed, base's for all else.
//
// What is merged has been rendered: a change of one side that reaches the objects of
// the other (a kustomization's labels and the other side's new object) is not detected.
func Merge(mergeBase, base, head state.Set) (merged state.Set, both []state.Key) {
	keys := map[state.Key]bool{}
	for _, set := range []state.Set{mergeBase, base, head} {
		for item := range set.All() {
			keys[item.Key] = true
		}
	}
	var items []state.Item
	for k := range keys {
		item, stays, twice := mergeItem(itemIn(mergeBase, k), itemIn(base, k), itemIn(head, k))
		if stays {
			items = append(items, item)
		}
		if twice {
			both = append(both, k)
		}
	}
	slices.SortFunc(both, state.Key.Compare)
	return state.NewSet(items...), both
}

// version is a thing as one revision has it; there is false where it has none.
type version struct {
	item  state.Item
	there bool
}

func itemIn(set state.Set, k state.Key) version {
	item, there := set.Get(k)
	return version{item, there}
}

// same reports whether two revisions declare the same, wherever it is written.
func (v version) same(other version) bool {
	if !v.there || !other.there {
		return v.there == other.there
	}
	return v.item.Version == other.item.Version && state.Equal(v.item.Object, other.item.Object)
}

// mergeItem merges one thing; twice is true where both sides changed it and disagree.
func mergeItem(mergeBase, base, head version) (merged state.Item, stays, twice bool) {
	switch {
	case head.same(mergeBase):
		return base.item, base.there, false
	case base.same(mergeBase), base.same(head):
		return head.item, head.there, false
	case !base.there, !head.there, base.item.Version != head.item.Version:
		// The fields of two versions of a kind do not go together.
		return head.item, head.there, true
	}
	var from map[string]any
	if mergeBase.there && mergeBase.item.Version == head.item.Version {
		from = mergeBase.item.Object
	}
	merged = head.item
	merged.Object, twice = mergeMaps(from, base.item.Object, head.item.Object)
	return merged, true, twice
}

// value is a field as one revision has it: absence is not null.
type value struct {
	v     any
	there bool
}

func valueIn(m map[string]any, k string) value {
	v, there := m[k]
	return value{v, there}
}

func (v value) same(other value) bool {
	return v.there == other.there && (!v.there || state.Equal(v.v, other.v))
}

func mergeMaps(mergeBase, base, head map[string]any) (merged map[string]any, twice bool) {
	merged = make(map[string]any, len(head))
	for _, revision := range []map[string]any{mergeBase, base, head} {
		for k := range revision {
			if _, done := merged[k]; done {
				continue
			}
			field, conflict := mergeField(valueIn(mergeBase, k), valueIn(base, k), valueIn(head, k))
			if field.there {
				merged[k] = field.v
			}
			twice = twice || conflict
		}
	}
	return merged, twice
}

func mergeField(mergeBase, base, head value) (merged value, twice bool) {
	switch {
	case head.same(mergeBase):
		return base, false
	case base.same(mergeBase), base.same(head):
		return head, false
	}
	b, baseHas := base.v.(map[string]any)
	h, headHas := head.v.(map[string]any)
	from, partedHad := mergeBase.v.(map[string]any)
	if !baseHas || !headHas || mergeBase.there && !partedHad {
		return head, true
	}
	fields, twice := mergeMaps(from, b, h)
	return value{fields, true}, twice
}
