package state

import (
	"iter"
	"slices"
)

// Set holds at most one Item per Key. The zero Set is empty and ready to read;
// use NewSet to build one. A Set is not changed after it was handed on.
type Set struct {
	// items are in the order of their keys: a Set is listed far more often than it is made. Sets that
	// are made of others share them.
	items []*Item
}

// NewSet builds a Set. The last of several Items with equal keys wins: who
// must report duplicates does so before.
func NewSet(items ...Item) Set {
	own := slices.Clone(items)
	all := make([]*Item, len(own))
	for i := range own {
		all[i] = &own[i]
	}
	return newSet(all)
}

// newSet builds a Set of Items that nobody else changes, in a slice that it keeps.
func newSet(items []*Item) Set {
	byKey := func(a, b *Item) int { return a.Key.Compare(b.Key) }
	if !slices.IsSortedFunc(items, byKey) {
		slices.SortStableFunc(items, byKey)
	}
	unique := items[:0]
	for i, item := range items {
		if i+1 == len(items) || items[i+1].Key != item.Key {
			unique = append(unique, item)
		}
	}
	clear(items[len(unique):])
	return Set{items: unique}
}

// Get returns the Item with that key.
func (s Set) Get(k Key) (Item, bool) {
	if i, ok := s.find(k); ok {
		return *s.items[i], true
	}
	return Item{}, false
}

func (s Set) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(s.items, k, func(i *Item, k Key) int { return i.Key.Compare(k) })
}

// Len is the number of Items.
func (s Set) Len() int { return len(s.items) }

// Items lists the Items in the order of their keys.
func (s Set) Items() []Item {
	out := make([]Item, len(s.items))
	for i, item := range s.items {
		out[i] = *item
	}
	return out
}

// All iterates over the Items in the order of their keys, and copies no list of them as Items does.
func (s Set) All() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for _, item := range s.items {
			if !yield(*item) {
				return
			}
		}
	}
}

// Union returns the Items of both sets; where a key is in both, other's.
func (s Set) Union(other Set) Set {
	switch {
	case len(s.items) == 0:
		return other
	case len(other.items) == 0:
		return s
	}
	out := make([]*Item, 0, len(s.items)+len(other.items))
	a, b := s.items, other.items
	for len(a) > 0 && len(b) > 0 {
		switch order := a[0].Key.Compare(b[0].Key); {
		case order < 0:
			out, a = append(out, a[0]), a[1:]
		case order > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, b[0]), a[1:], b[1:]
		}
	}
	return Set{items: append(append(out, a...), b...)}
}

// Only returns the subset with the given keys; keys that the Set does not hold
// are passed over.
func (s Set) Only(keys []Key) Set {
	out := make([]*Item, 0, len(keys))
	for _, k := range keys {
		if i, ok := s.find(k); ok {
			out = append(out, s.items[i])
		}
	}
	return newSet(out)
}
