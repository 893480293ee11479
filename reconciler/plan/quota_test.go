package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// withQuota plans the change between two lists of things, as rolling does, with a quota that was read.
func withQuota(from, to []string, policies ...plan.Policy) plan.Plan {
	p := rolling(from, to, policies...)
	p.Quotas = []plan.Quota{{Key: state.Key{Target: "aws", Group: "servicequotas", Kind: "Quota", Name: "q"}, Quota: state.Quota{Code: "L-1", LimitVCPUs: 64}}}
	return p
}

// short finds the pools of these names short together.
func short(causing ...string) func(_, _ []state.Item, _ []plan.Quota) []hold.Quota {
	return func([]state.Item, []state.Item, []plan.Quota) []hold.Quota {
		return []hold.Quota{{Codes: []string{"L-1"}, Pools: causing, IncreasedPools: causing, NeededVCPUs: 72, LimitVCPUs: 64}}
	}
}

func TestChangesThatExceedAQuotaAreHeld(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to []string
		causing  []string
		want     []string
	}{
		{"a pool that is created", nil, []string{"NodePool/a=1", "ConfigMap/m=1"}, []string{"a"}, []string{"create NodePool/a"}},
		{"a pool that is changed, and not one that causes nothing", []string{"NodePool/a=1", "NodePool/b=1"}, []string{"NodePool/a=2", "NodePool/b=2"}, []string{"a"}, []string{"update NodePool/a"}},
		{"not a pool that a hand changed", []string{"NodePool/a=1!", "NodePool/b=1"}, []string{"NodePool/a=2", "NodePool/b=2"}, []string{"a", "b"}, []string{"update NodePool/b"}},
		{"not what has the name of such a pool", []string{"EC2NodeClass/a=1", "NodePool/a=1"}, []string{"EC2NodeClass/a=2", "NodePool/a=2"}, []string{"a"}, []string{"update NodePool/a"}},
		{"not a deletion", []string{"NodePool/a=1"}, []string{"NodePool/b=1"}, []string{"a", "b"}, []string{"create NodePool/b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := withQuota(tt.from, tt.to).GuardQuotas("", short(tt.causing...))
			if d := cmp.Diff(tt.want, heldIn(p)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			confirmed := withQuota(tt.from, tt.to).GuardQuotas(token(t, p), short(tt.causing...))
			if got := heldIn(confirmed); len(got) > 0 {
				t.Errorf("confirmed: %v are held", got)
			}
			if !slices.ContainsFunc(confirmed.Changes, func(c plan.Change) bool { return len(c.Tokens) == 1 && c.Tokens[0].Purpose == "quota" }) {
				t.Error("no change has the token")
			}
		})
	}
}

func TestTheTokenOfAQuotaStandsForItsChangesAlone(t *testing.T) {
	from, to := []string{"NodePool/a=1", "NodePool/b=1"}, []string{"NodePool/a=2", "NodePool/b=1", "ConfigMap/m=1"}
	quoted := token(t, withQuota(from, to).GuardQuotas("", short("a")))
	if !strings.HasPrefix(quoted, "quota-1-") {
		t.Errorf("the token is %s", quoted)
	}
	for name, c := range map[string]struct {
		to      []string
		causing []string
		held    bool
	}{
		"the same":                        {to, []string{"a"}, false},
		"with another object":             {append([]string{"ConfigMap/n=1"}, to...), []string{"a"}, false},
		"with another content":            {[]string{"NodePool/a=3", "NodePool/b=1"}, []string{"a"}, true},
		"with another pool that is short": {[]string{"NodePool/a=2", "NodePool/b=2"}, []string{"a", "b"}, true},
	} {
		if got := heldIn(withQuota(from, c.to).GuardQuotas(quoted, short(c.causing...))); (len(got) > 0) != c.held {
			t.Errorf("%s: %v are held", name, got)
		}
	}
}

// What others use moves from one run to the next, and what fits is applied; the token of the rest must stay.
func TestTheTokenOfAQuotaStaysWhileWhatIsHeldMoves(t *testing.T) {
	to := []string{"NodePool/a=2", "NodePool/b=2"}
	quoted := token(t, withQuota([]string{"NodePool/a=1", "NodePool/b=1"}, to).GuardQuotas("", short("b")))
	for name, c := range map[string]struct{ from, causing []string }{
		"more is held":               {[]string{"NodePool/a=1", "NodePool/b=1"}, []string{"a", "b"}},
		"another one is held":        {[]string{"NodePool/a=1", "NodePool/b=1"}, []string{"a"}},
		"what fits has been applied": {[]string{"NodePool/a=2", "NodePool/b=1"}, []string{"b"}},
	} {
		if got := token(t, withQuota(c.from, to).GuardQuotas("", short(c.causing...))); got != quoted {
			t.Errorf("%s: the token was %s and is %s", name, quoted, got)
		}
		if got := heldIn(withQuota(c.from, to).GuardQuotas(quoted, short(c.causing...))); len(got) > 0 {
			t.Errorf("%s: %v are held though confirmed", name, got)
		}
	}
}

func TestWithoutADeclaredPoolAndInAPlanOfSomeThingsNothingIsComputed(t *testing.T) {
	fails := func([]state.Item, []state.Item, []plan.Quota) []hold.Quota {
		t.Error("exceeded quotas were computed")
		return nil
	}
	withQuota([]string{"NodePool/a=1!", "NodePool/b=1"}, []string{"NodePool/a=2", "ConfigMap/m=1"}).GuardQuotas("", fails)
	rolling(nil, []string{"NodePool/a=1"}, plan.MarkPartial()).GuardQuotas("", fails)
}

func TestAPoolIsHeldInAFullPlanWithoutAnyQuota(t *testing.T) {
	p := rolling(nil, []string{"NodePool/a=1"}).GuardQuotas("", short("a"))
	if got := heldIn(p); !slices.Equal(got, []string{"create NodePool/a"}) {
		t.Errorf("%v are held", got)
	}
}

// What a hand changed is as it was declared: that it is put back is not what the revision does.
func TestThePoolsBeforeAreThoseThatWereDeclared(t *testing.T) {
	from := []string{"NodePool/changed=1", "NodePool/edited=1!", "NodePool/gone=1", "NodePool/same=1"}
	to := []string{"NodePool/changed=2", "NodePool/edited=2", "NodePool/new=2", "NodePool/same=1"}
	withQuota(from, to).GuardQuotas("", func(before, after []state.Item, quotas []plan.Quota) []hold.Quota {
		list := func(items []state.Item) []string {
			var out []string
			for _, i := range items {
				out = append(out, i.Key.Name+"="+i.Object["value"].(string))
			}
			slices.Sort(out)
			return out
		}
		if d := cmp.Diff([]string{"changed=1", "edited=2", "gone=1", "same=1"}, list(before)); d != "" {
			t.Errorf("before (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"changed=2", "edited=2", "new=2", "same=1"}, list(after)); d != "" {
			t.Errorf("after (-want +got):\n%s", d)
		}
		if len(quotas) != 1 || quotas[0].LimitVCPUs != 64 {
			t.Errorf("quotas %+v", quotas)
		}
		return nil
	})
}

func TestWhatADeletedPoolUsesIsFreeForAnotherUnlessTheDeletionIsHeld(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policies []plan.Policy
		want     int64
	}{
		{"the pool is deleted", nil, 4},
		{"the deletion is held", []plan.Policy{plan.Guard(10, "")}, 44},
		{"nothing is deleted", []plan.Policy{plan.NoPrune()}, 44},
	} {
		p := withQuota([]string{"NodePool/old=1"}, []string{"NodePool/new=1"}, tt.policies...)
		p.Quotas[0].UsedVCPUs, p.Quotas[0].UsedBy = 44, map[string]int64{"old": 40, "elsewhere": 2}
		p.GuardQuotas("", func(_, _ []state.Item, quotas []plan.Quota) []hold.Quota {
			if quotas[0].UsedVCPUs != tt.want {
				t.Errorf("%s: %d vCPUs are taken, want %d", tt.name, quotas[0].UsedVCPUs, tt.want)
			}
			return nil
		})
		if p.Quotas[0].UsedVCPUs != 44 {
			t.Errorf("%s: the plan was changed", tt.name)
		}
	}
}

func TestAQuotaAndTheNodesOfAChangeAreConfirmedEachByItsToken(t *testing.T) {
	limit := 0
	guarded := func(confirmation string) plan.Plan {
		return withQuota([]string{"NodePool/a=1"}, []string{"NodePool/a=2"}).GuardQuotas(confirmation, short("a")).
			GuardNodes(&limit, nil, confirmation, func([]plan.Change) hold.Nodes { return hold.Nodes{Replaced: 1} })
	}
	both := guarded("")
	if got := both.Changes[0].Hold.Rules(); !slices.Equal(got, []hold.Rule{hold.QuotaExceeded, hold.MaxNodesReplaced}) {
		t.Errorf("held by %v", got)
	}
	tokens := strings.Split(token(t, both), ",")
	if len(tokens) != 2 || len(heldIn(guarded(tokens[0]))) != 1 || len(heldIn(guarded(tokens[1]))) != 1 || len(heldIn(guarded(tokens[0]+","+tokens[1]))) != 0 {
		t.Errorf("tokens %v", tokens)
	}
}
