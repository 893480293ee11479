package proposal_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
)

type m = map[string]any

func key(name string) state.Key {
	return state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name}
}

// thing is one that a revision declares.
func thing(name string, object m) state.Item {
	return state.Item{Key: key(name), Version: "v1", Object: object, Origin: state.Origin{File: name + ".yaml", Line: 1}}
}

func set(items ...state.Item) state.Set { return state.NewSet(items...) }

// at is where an item is declared.
func at(item state.Item, file string) state.Item {
	item.Origin = state.Origin{File: file, Line: 7}
	return item
}

func as(item state.Item, version string) state.Item {
	item.Version = version
	return item
}

func TestAMergeTakesWhatEachSideChanged(t *testing.T) {
	one, two, three := thing("a", m{"x": "1"}), thing("a", m{"x": "2"}), thing("a", m{"x": "3"})
	none := state.Set{}
	tests := []struct {
		name                  string
		mergeBase, base, head state.Set
		want                  state.Set
		both                  []state.Key
	}{
		{"nobody changed anything", set(one), set(one), set(one), set(one), nil},
		{"only the base changed it", set(one), set(two), set(one), set(two), nil},
		{"only the head changed it", set(one), set(one), set(two), set(two), nil},
		{"both changed it to the same, which is the head's", set(one), set(at(two, "base")), set(at(two, "head")), set(at(two, "head")), nil},
		{"both changed it differently: the head's value", set(one), set(two), set(three), set(three), []state.Key{key("a")}},
		{"only the base added it", none, set(one), none, set(one), nil},
		{"only the head added it", none, none, set(one), set(one), nil},
		{"both added the same", none, set(at(one, "base")), set(at(one, "head")), set(at(one, "head")), nil},
		{"both added it differently", none, set(one), set(two), set(two), []state.Key{key("a")}},
		{"only the base removed it", set(one), none, set(one), none, nil},
		{"only the head removed it", set(one), set(one), none, none, nil},
		{"both removed it", set(one), none, none, none, nil},
		{"the base changed what the head removed: it is gone", set(one), set(two), none, none, []state.Key{key("a")}},
		{"the head changed what the base removed: it stays", set(one), none, set(two), set(two), []state.Key{key("a")}},
		{"a file that only moved in the head is no change of it", set(at(one, "old")), set(at(two, "old")), set(at(one, "new")), set(at(two, "old")), nil},
		{"a file that only moved in the base is no change of it", set(at(one, "old")), set(at(one, "new")), set(at(two, "old")), set(at(two, "old")), nil},
		{
			"the versions of a kind are not mixed", set(as(one, "v1beta1")), set(as(two, "v1beta1")), set(as(one, "v1")),
			set(as(one, "v1")), []state.Key{key("a")},
		},
		{
			"a version that both left behind decides nothing about the fields",
			set(as(thing("a", m{"x": "1", "y": "1"}), "v1beta1")), set(thing("a", m{"x": "1", "y": "2"})), set(thing("a", m{"x": "2", "y": "2"})),
			set(thing("a", m{"x": "2", "y": "2"})), []state.Key{key("a")},
		},
		{
			"several at once, listed in the order of their keys",
			set(thing("c", m{"x": "1"}), thing("b", m{"x": "1"})), set(thing("c", m{"x": "2"}), thing("b", m{"x": "2"})),
			set(thing("c", m{"x": "3"}), thing("b", m{"x": "3"}), thing("a", m{})),
			set(thing("c", m{"x": "3"}), thing("b", m{"x": "3"}), thing("a", m{})), []state.Key{key("b"), key("c")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			merged, both := proposal.Merge(tt.mergeBase, tt.base, tt.head)
			if d := cmp.Diff(tt.want.Items(), merged.Items()); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.both, both); d != "" {
				t.Errorf("changed on both sides: %s", d)
			}
		})
	}
}

func TestAMergePutsTheFieldsOfOneThingTogether(t *testing.T) {
	mergeBase := m{"spec": m{"limits": m{"cpu": "10"}, "weight": int64(1), "taints": []any{"a"}}, "old": m{"x": "1"}}
	tests := []struct {
		name             string
		base, head, want m
		both             bool
	}{
		{
			"different fields of one map",
			m{"spec": m{"limits": m{"cpu": "20"}, "weight": int64(1), "taints": []any{"a"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": int64(5), "taints": []any{"a"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "20"}, "weight": int64(5), "taints": []any{"a"}}, "old": m{"x": "1"}}, false,
		},
		{
			"a field that one removed beside one that the other changed",
			m{"spec": m{"limits": m{"cpu": "10"}, "taints": []any{"a"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "20"}, "weight": int64(1), "taints": []any{"a"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "20"}, "taints": []any{"a"}}, "old": m{"x": "1"}}, false,
		},
		{
			"maps that both added", m{"spec": mergeBase["spec"], "old": mergeBase["old"], "labels": m{"a": "1"}},
			m{"spec": mergeBase["spec"], "old": mergeBase["old"], "labels": m{"b": "2"}},
			m{"spec": mergeBase["spec"], "old": mergeBase["old"], "labels": m{"a": "1", "b": "2"}}, false,
		},
		{
			"a list that both changed is the head's",
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": int64(1), "taints": []any{"a", "b"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": int64(1), "taints": []any{"a", "c"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": int64(1), "taints": []any{"a", "c"}}, "old": m{"x": "1"}}, true,
		},
		{
			"a map that the head removed and the base changed is gone",
			m{"spec": mergeBase["spec"], "old": m{"x": "2"}}, m{"spec": mergeBase["spec"], "new": "1"},
			m{"spec": mergeBase["spec"], "new": "1"}, true,
		},
		{
			"a map that the base removed and the head changed stays",
			m{"spec": mergeBase["spec"]}, m{"spec": mergeBase["spec"], "old": m{"x": "2"}},
			m{"spec": mergeBase["spec"], "old": m{"x": "2"}}, true,
		},
		{
			"null is not absence", m{"spec": mergeBase["spec"], "old": nil}, m{"spec": mergeBase["spec"]},
			m{"spec": mergeBase["spec"]}, true,
		},
		{
			"maps that both made of what was none are not mixed",
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": m{"a": "1"}, "taints": []any{"a"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": m{"b": "1"}, "taints": []any{"a"}}, "old": m{"x": "1"}},
			m{"spec": m{"limits": m{"cpu": "10"}, "weight": m{"b": "1"}, "taints": []any{"a"}}, "old": m{"x": "1"}}, true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			merged, both := proposal.Merge(set(thing("a", mergeBase)), set(at(thing("a", tt.base), "base")), set(at(thing("a", tt.head), "head")))
			got, _ := merged.Get(key("a"))
			if d := cmp.Diff(tt.want, got.Object); d != "" {
				t.Error(d)
			}
			if (len(both) > 0) != tt.both {
				t.Errorf("changed on both sides: %v, want %v", both, tt.both)
			}
			if got.Origin.File != "head" {
				t.Errorf("declared at %s", got.Origin)
			}
		})
	}
}

// FuzzMerge holds the properties of a merge: who changes nothing has no say, the sides do
// not matter where they agree, and nothing that was given is changed.
func FuzzMerge(f *testing.F) {
	f.Add(`{"a":{"x":1}}`, `{"a":{"x":2}}`, `{"a":{"x":1,"y":[1]}}`)
	f.Add(`{"a":{"x":{"y":1}},"b":{}}`, `{"b":{"z":null}}`, `{"a":{"x":{"y":2}}}`)
	f.Add(`{}`, `{"a":{"x":{"p":1}}}`, `{"a":{"x":{"q":1}}}`)
	f.Fuzz(func(t *testing.T, mergeBase, base, head string) {
		p, okP := read(mergeBase)
		b, okB := read(base)
		h, okH := read(head)
		if !okP || !okB || !okH {
			t.Skip("not three sets of objects")
		}
		expect := func(what string, want, got state.Set, both []state.Key) {
			if d := cmp.Diff(want.Items(), got.Items()); d != "" || len(both) > 0 {
				t.Errorf("%s: both %v\n%s", what, both, d)
			}
		}
		got, both := proposal.Merge(p, b, p)
		expect("the head changes nothing", b, got, both)
		got, both = proposal.Merge(p, p, h)
		expect("the base changes nothing", h, got, both)
		got, both = proposal.Merge(p, b, b)
		expect("both are the same", b, got, both)

		merged, both := proposal.Merge(p, b, h)
		turned, also := proposal.Merge(p, h, b)
		if d := cmp.Diff(both, also); d != "" {
			t.Errorf("the sides disagree about where they disagree: %s", d)
		}
		if len(both) == 0 {
			expect("either side first", merged, turned, nil)
		}
		for _, text := range []struct {
			was string
			now state.Set
		}{{mergeBase, p}, {base, b}, {head, h}} {
			again, _ := read(text.was)
			if d := cmp.Diff(again.Items(), text.now.Items()); d != "" {
				t.Errorf("an input was changed: %s", d)
			}
		}
	})
}

// read makes a set of things from their names and contents.
func read(text string) (state.Set, bool) {
	var objects map[string]map[string]any
	if json.Unmarshal([]byte(text), &objects) != nil {
		return state.Set{}, false
	}
	var items []state.Item
	for name, object := range objects {
		if object == nil {
			object = m{}
		}
		items = append(items, state.Item{Key: key(name), Version: "v1", Object: object})
	}
	return set(items...), true
}
