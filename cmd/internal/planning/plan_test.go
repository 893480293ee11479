package planning

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestWhatIsDeclaredAndNotLiveYetIsNew(t *testing.T) {
	item := func(name, content string) state.Item {
		return state.Item{Key: state.Key{Target: "kubernetes", Group: "apps", Kind: "Deployment", Name: name}, Object: map[string]any{"spec": content}}
	}
	live := func(i state.Item) state.Item {
		i.Key.Namespace = "default"
		return i
	}
	change := func(action plan.Action, was *state.Item, is state.Item) plan.Change {
		return plan.Change{Key: live(is).Key, Action: action, Before: was, After: new(live(is))}
	}
	was := live(item("changed", "old"))
	set := liveBefore(state.NewSet(item("same", "s"), item("new", "n"), item("changed", "newer")),
		[]plan.Change{change(plan.Create, nil, item("new", "n")), change(plan.Update, &was, item("changed", "newer"))})
	var got []string
	for _, i := range set.Items() {
		got = append(got, strings.Join([]string{i.Key.Name, i.Object["spec"].(string)}, " "))
	}
	if diff := cmp.Diff([]string{"changed old", "same s"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
