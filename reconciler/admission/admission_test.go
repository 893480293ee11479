package admission

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
)

func TestOfSeveralClustersNoneIsAdmitted(t *testing.T) {
	pass := func(state.Item) []state.Problem { return nil }
	declares := func(name string) state.Item {
		return state.Item{
			Key:     state.Key{Target: "cluster", Group: "poolwright.dev", Kind: "Cluster", Name: name},
			Version: "v1alpha1", Object: map[string]any{"spec": map[string]any{}}, Origin: state.Origin{File: name + ".yaml", Line: 1},
		}
	}
	if got := admit(state.NewSet(declares("a")), pass).Len(); got != 1 {
		t.Errorf("of one, %d", got)
	}
	if got := admit(state.NewSet(declares("a"), declares("b")), pass).Len(); got != 0 {
		t.Errorf("of two, %d", got)
	}
}
