package state_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/state"
)

func TestKeysReadAsAPersonWouldWriteThem(t *testing.T) {
	tests := []struct {
		name string
		key  state.Key
		want string
	}{
		{"a core object in a namespace", state.Key{Kind: "Pod", Namespace: "a", Name: "b"}, "Pod/a/b"},
		{"a core object without one", state.Key{Kind: "Node", Name: "b"}, "Node/b"},
		{"an object of a group", state.Key{Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}, "NodePool.karpenter.sh/gpu"},
		{"a resource of AWS", state.Key{Target: "aws", Group: "sqs", Kind: "Queue", Name: "q"}, "Queue.sqs/q"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.key.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// keys are in their order.
func keys() []state.Key {
	var out []state.Key
	for _, target := range []string{"aws", "kubernetes"} {
		for _, group := range []string{"", "apps"} {
			for _, kind := range []string{"A", "B"} {
				for _, namespace := range []string{"", "x"} {
					for _, name := range []string{"a", "b"} {
						out = append(out, state.Key{Target: target, Group: group, Kind: kind, Namespace: namespace, Name: name})
					}
				}
			}
		}
	}
	return out
}

func TestKeysHaveATotalOrder(t *testing.T) {
	all := keys()
	for i, a := range all {
		for j, b := range all {
			if got, want := a.Compare(b), cmp.Compare(i, j); got != want {
				t.Errorf("%v against %v: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestOriginsNameFileAndLine(t *testing.T) {
	tests := []struct {
		origin state.Origin
		want   string
	}{
		{state.Origin{}, ""},
		{state.Origin{File: "a.yaml"}, "a.yaml"},
		{state.Origin{File: "a.yaml", Line: 7}, "a.yaml:7"},
	}
	for _, tt := range tests {
		if got := tt.origin.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		problem := state.Problem{Origin: tt.origin, Message: "wrong"}
		want := tt.want + ": wrong"
		if tt.want == "" {
			want = "wrong"
		}
		if got := problem.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestASetListsItsItemsInOrderHoweverItWasFilled(t *testing.T) {
	var items []state.Item
	for _, k := range keys() {
		items = append(items, state.Item{Key: k})
	}
	for range 20 {
		mixed := slices.Clone(items)
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if d := gocmp.Diff(items, state.NewSet(mixed...).Items()); d != "" {
			t.Fatal(d)
		}
	}
}

func TestASetHoldsTheLastItemOfAKey(t *testing.T) {
	k := state.Key{Name: "a"}
	s := state.NewSet(state.Item{Key: k, Wave: 1}, state.Item{Key: k, Wave: 2})
	if i, ok := s.Get(k); !ok || i.Wave != 2 || s.Len() != 1 {
		t.Errorf("got %v %v of %d", i, ok, s.Len())
	}
}

func TestTheZeroSetIsEmpty(t *testing.T) {
	var s state.Set
	if _, ok := s.Get(state.Key{}); ok || s.Len() != 0 || len(s.Items()) != 0 || s.Only([]state.Key{{}}).Len() != 0 {
		t.Error("the zero set holds something")
	}
}

func TestOnlyPassesOverWhatTheSetDoesNotHold(t *testing.T) {
	a, b := state.Key{Name: "a"}, state.Key{Name: "b"}
	s := state.NewSet(state.Item{Key: a}, state.Item{Key: b})
	got := s.Only([]state.Key{b, {Name: "c"}})
	if _, ok := got.Get(b); !ok || got.Len() != 1 || s.Len() != 2 {
		t.Errorf("got %v", got.Items())
	}
}

func TestClassifyFindsTheOutermostClassThroughWrapping(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name   string
		err    error
		class  state.FailureClass
		reason string
		after  time.Duration
	}{
		{"an error without a class is retried", boom, state.Retry, "Failed", 0},
		{"a class", state.Fail(state.Stalled, "Invalid", boom), state.Stalled, "Invalid", 0},
		{"a class that was wrapped", fmt.Errorf("reading: %w", state.Fail(state.Stalled, "Invalid", boom)), state.Stalled, "Invalid", 0},
		{"a wait", state.WaitFor(time.Minute, "Throttled", boom), state.Wait, "Throttled", time.Minute},
		{"the outer of two", state.Fail(state.Retry, "Outer", state.Fail(state.Stalled, "Inner", boom)), state.Retry, "Outer", 0},
		{"the first of several that were joined", errors.Join(boom, state.Failf(state.Stalled, "A", "a"), state.Failf(state.Wait, "B", "b")), state.Stalled, "A", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			class, reason, after := state.Classify(tt.err)
			if class != tt.class || reason != tt.reason || after != tt.after {
				t.Errorf("got %s %s %s, want %s %s %s", class, reason, after, tt.class, tt.reason, tt.after)
			}
		})
	}
}

func TestAClassNeitherChangesNorHidesAnError(t *testing.T) {
	boom := errors.New("boom")
	for _, err := range []error{state.Fail(state.Stalled, "R", boom), state.WaitFor(1, "R", boom), state.Failf(state.Stalled, "R", "%w", boom)} {
		if err.Error() != "boom" || !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	}
	if state.Fail(state.Stalled, "R", nil) != nil || state.WaitFor(1, "R", nil) != nil {
		t.Error("a class makes an error of nil")
	}
}

func TestEqualComparesContent(t *testing.T) {
	type m = map[string]any
	tests := []struct {
		name string
		a, b any
		want bool
	}{
		{"maps filled in another order", m{"a": int64(1), "b": "x"}, m{"b": "x", "a": int64(1)}, true},
		{"an integer and the same float", int64(1), 1.0, true},
		{"an integer and another float", int64(1), 1.5, false},
		{"a number and its text", int64(1), "1", false},
		{"true and its text", true, "true", false},
		{"an entry that is nil and none", m{"a": nil}, m{}, false},
		{"an entry that is nil and another key", m{"a": nil}, m{"b": nil}, false},
		{"lists in another order", []any{"a", "b"}, []any{"b", "a"}, false},
		{"a list and its beginning", []any{"a"}, []any{"a", "b"}, false},
		{"an empty list and none", []any{}, nil, false},
		{"an empty map and an empty list", m{}, []any{}, false},
		{"nothing and nothing", nil, nil, true},
		{"nested content", m{"a": []any{m{"b": 1.5}}}, m{"a": []any{m{"b": 1.5}}}, true},
		{"nested difference", m{"a": []any{m{"b": 1.5}}}, m{"a": []any{m{"b": 1.25}}}, false},
		{"a type that is not canonical", m{"a": "b"}, map[string]string{"a": "b"}, true},
		{"what cannot be written", func() {}, func() {}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := state.Equal(tt.a, tt.b); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := state.Equal(tt.b, tt.a); got != tt.want {
				t.Errorf("the other way round: got %v, want %v", got, tt.want)
			}
			if same := state.Hash(tt.a) == state.Hash(tt.b); tt.want && !same {
				t.Error("equal values have different hashes")
			}
		})
	}
}

func TestHashDistinguishesWhatCannotBeWrittenFromWhatCan(t *testing.T) {
	if state.Hash(make(chan int)) == state.Hash(nil) || state.Hash(nil) == state.Hash("") {
		t.Error("different values have equal hashes")
	}
}

// canonical turns numbers as encoding/json reads them into canonical ones.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = canonical(e)
		}
	case []any:
		for i, e := range v {
			v[i] = canonical(e)
		}
	case float64:
		if n := int64(v); float64(n) == v && v < 1e15 && v > -1e15 {
			return n
		}
	}
	return v
}

func FuzzEqualAgreesWithTheWrittenForm(f *testing.F) {
	f.Add(`{"a":1,"b":[true,null,"x"]}`, `{"b":[true,null,"x"],"a":1.0}`)
	f.Add(`{"a":-0.0}`, `{"a":0}`)
	f.Add(`[1e300, 5e-324]`, `[1e300]`)
	f.Fuzz(func(t *testing.T, left, right string) {
		var a, b any
		if json.Unmarshal([]byte(left), &a) != nil || json.Unmarshal([]byte(right), &b) != nil {
			t.Skip("not JSON")
		}
		a, b = canonical(a), canonical(b)
		rawA, _ := json.Marshal(a)
		rawB, _ := json.Marshal(b)
		if got, want := state.Equal(a, b), string(rawA) == string(rawB); got != want {
			t.Errorf("%s against %s: %v, want %v", rawA, rawB, got, want)
		}
		if !state.Equal(a, a) || state.Equal(a, b) != (state.Hash(a) == state.Hash(b)) {
			t.Errorf("%s against %s: hashes disagree", rawA, rawB)
		}
	})
}

func TestAUnionHasTheItemsOfBothSetsAndTheOthersWhereBothHaveOne(t *testing.T) {
	item := func(name string, wave int) state.Item { return state.Item{Key: state.Key{Name: name}, Wave: wave} }
	tests := []struct {
		name      string
		one, more []state.Item
		want      []state.Item
	}{
		{"of nothing", nil, nil, []state.Item{}},
		{"with nothing", []state.Item{item("a", 1)}, nil, []state.Item{item("a", 1)}},
		{"of nothing with something", nil, []state.Item{item("a", 1)}, []state.Item{item("a", 1)}},
		{"of what is between each other", []state.Item{item("a", 1), item("c", 1)}, []state.Item{item("b", 2), item("d", 2)}, []state.Item{item("a", 1), item("b", 2), item("c", 1), item("d", 2)}},
		{"of what both have", []state.Item{item("a", 1), item("b", 1)}, []state.Item{item("b", 2)}, []state.Item{item("a", 1), item("b", 2)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one, more := state.NewSet(tt.one...), state.NewSet(tt.more...)
			union := one.Union(more)
			if d := gocmp.Diff(tt.want, union.Items()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := gocmp.Diff(union.Items(), append([]state.Item{}, slices.Collect(union.All())...)); d != "" {
				t.Errorf("All is not as Items:\n%s", d)
			}
			if one.Len() != len(tt.one) || more.Len() != len(tt.more) {
				t.Error("a set has changed")
			}
		})
	}
}

func TestASetKeepsItsItemsWhateverBecomesOfTheListThatItWasMadeOf(t *testing.T) {
	items := []state.Item{{Key: state.Key{Name: "b"}, Wave: 1}, {Key: state.Key{Name: "a"}, Wave: 1}}
	s := state.NewSet(items...)
	part := s.Only([]state.Key{{Name: "b"}, {Name: "b"}})
	items[0].Wave = 2
	s.Items()[1].Wave = 3
	for item := range s.All() {
		if item.Wave != 1 {
			t.Errorf("%s has wave %d", item.Key, item.Wave)
		}
	}
	if got, _ := part.Get(state.Key{Name: "b"}); part.Len() != 1 || got.Wave != 1 {
		t.Errorf("a part of it has %v", part.Items())
	}
	for range s.All() {
		break // The rest is not requested.
	}
}
