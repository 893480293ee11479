package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// kinds are the groups of what the tests change.
var kinds = map[string]string{"NodePool": "karpenter.sh", "NodeOverlay": "karpenter.sh", "EC2NodeClass": "karpenter.k8s.aws", "NodeClaim": "karpenter.sh", "ConfigMap": ""}

// declared is Kind/name=value as an Item.
func declared(what string) state.Item {
	id, value, _ := strings.Cut(what, "=")
	kind, name, _ := strings.Cut(id, "/")
	return state.Item{
		Key:    state.Key{Target: "kubernetes", Group: kinds[kind], Kind: kind, Name: name},
		Object: object{"value": value}, Live: state.Preconditions{UID: "uid-" + name},
	}
}

// rolling plans the change between two lists of things; those that end with ! were
// changed by hand. Nodes go with a pool.
func rolling(from, to []string, policies ...plan.Policy) plan.Plan {
	var desired, observed []state.Item
	drifted := map[state.Key]bool{}
	for _, what := range from {
		item := declared(strings.TrimSuffix(what, "!"))
		drifted[item.Key] = strings.HasSuffix(what, "!")
		stays := slices.ContainsFunc(to, func(what string) bool { return declared(what).Key == item.Key })
		if item.Key.Kind == "NodePool" && !stays { // What its deletion would cost.
			item.Impact = "3 nodes, 7 pods"
		}
		observed = append(observed, item)
	}
	for _, what := range to {
		item := declared(what)
		item.Live = state.Preconditions{}
		desired = append(desired, item)
		for i := range observed {
			if observed[i].Key == item.Key && drifted[item.Key] {
				observed[i].Applied = state.Hash(item.Object)
			}
		}
	}
	return plan.Compute(state.NewSet(desired...), state.NewSet(observed...), policies...)
}

// reviewed is a review of the change between two lists of things, in which so many nodes of
// the pool gpu were reported.
func reviewed(number int64, nodes int, from, to []string) plan.Review {
	c := plan.Review{PullRequest: number, Pools: map[string]int{"gpu": nodes}}
	for _, change := range rolling(from, to).Changes {
		if change.IsNodeConfiguration() {
			c.Changes = append(c.Changes, change.Fingerprint())
		}
	}
	return c
}

// of is a review that told of other pools.
func of(c plan.Review, pools map[string]int) plan.Review {
	c.Pools = pools
	return c
}

func merged(c plan.Review) plan.Review {
	c.Merged = true
	return c
}

func heldIn(p plan.Plan) []string {
	out := []string{}
	for _, c := range p.Changes {
		if !c.Admitted() {
			out = append(out, string(c.Action)+" "+c.Key.Kind+"/"+c.Key.Name)
		}
	}
	return out
}

// token is what lets all pass that is held.
func token(t *testing.T, p plan.Plan) string {
	t.Helper()
	if p.Confirmation() == "" {
		t.Fatalf("%q ask for no token", holds(p))
	}
	return p.Confirmation()
}

var (
	before = []string{"NodePool/gpu=1", "NodePool/cpu=1", "EC2NodeClass/gpu=1", "ConfigMap/a=1"}
	after  = []string{"NodePool/gpu=2", "NodePool/cpu=1", "EC2NodeClass/gpu=2", "NodePool/new=1", "ConfigMap/a=2"}
)

func TestNodesAreGuarded(t *testing.T) {
	both := []string{"update EC2NodeClass/gpu", "update NodePool/gpu"}
	review := reviewed(12, 4, before, after)
	class := reviewed(13, 1, before, []string{"NodePool/gpu=1", "NodePool/cpu=1", "EC2NodeClass/gpu=2", "ConfigMap/a=1"})
	pool := reviewed(14, 3, before, []string{"NodePool/gpu=2", "NodePool/cpu=1", "EC2NodeClass/gpu=1", "NodePool/new=1", "ConfigMap/a=1"})
	other := []string{"NodePool/gpu=3", "EC2NodeClass/gpu=3", "NodePool/new=3", "NodePool/cpu=1"}
	for name, c := range map[string]struct {
		limit       int // -1: none
		reviewed    []plan.Review
		now         hold.Nodes
		held        []string
		reason      string
		unconfirmed bool
	}{
		"without a limit and a review nothing is predicted":                    {limit: -1, now: hold.Nodes{Replaced: 500}, unconfirmed: true},
		"as many as the limit pass":                                            {limit: 5, now: hold.Nodes{Replaced: 3, Removed: 2}},
		"more than the limit are held, and what comes or costs no node is not": {limit: 5, now: hold.Nodes{Replaced: 14}, held: both, reason: "would replace 14 nodes; guard.maxNodesReplaced is 5"},
		"nodes that go with their pool count, too":                             {limit: 5, now: hold.Nodes{Replaced: 4, Removed: 2}, held: both, reason: "would replace 4 nodes and take away 2 with their pools; guard.maxNodesReplaced is 5"},
		"and alone": {limit: 0, now: hold.Nodes{Removed: 1}, held: both, reason: "would take away 1 node with its pool; guard.maxNodesReplaced is 0"},
		"a limit of nought lets through what replaces none": {limit: 0},
		"with a limit, what cannot be predicted is held": {limit: 5, now: hold.Nodes{Unknown: "timed out"}, held: both,
			reason: "may replace any number of nodes, since the number cannot be predicted: timed out; guard.maxNodesReplaced is 5"},
		"with a limit, so is what may be more": {limit: 5, now: hold.Nodes{Replaced: 1, Uncertain: "only AWS knows the images"}, held: both,
			reason: "would replace 1 node, and maybe more: only AWS knows the images; guard.maxNodesReplaced is 5"},
		"what was predicted in the review passes":          {limit: -1, reviewed: []plan.Review{review}, now: hold.Nodes{Replaced: 4}},
		"two more than reviewed pass":                      {limit: -1, reviewed: []plan.Review{review}, now: hold.Nodes{Replaced: 6}},
		"three more than reviewed are held":                {limit: -1, reviewed: []plan.Review{review}, now: hold.Nodes{Replaced: 7}, held: both, reason: "would replace 7 nodes; 4 were predicted in the review of #12"},
		"of many, a fifth more pass":                       {limit: -1, reviewed: []plan.Review{reviewed(12, 50, before, after)}, now: hold.Nodes{Replaced: 60}},
		"and not one above it":                             {limit: -1, reviewed: []plan.Review{reviewed(12, 50, before, after)}, now: hold.Nodes{Replaced: 61}, held: both, reason: "would replace 61 nodes; 50 were predicted in the review of #12"},
		"the review had the warning":                       {limit: -1, reviewed: []plan.Review{review}, now: hold.Nodes{Replaced: 4, Uncertain: "only AWS knows"}},
		"after a review, what cannot be predicted is held": {limit: -1, reviewed: []plan.Review{review}, now: hold.Nodes{Unknown: "timed out"}, held: both, reason: "may replace any number of nodes, since the number cannot be predicted: timed out; 4 were predicted in the review of #12"},
		"both rules are named":                             {limit: 5, reviewed: []plan.Review{review}, now: hold.Nodes{Replaced: 14}, held: both, reason: "would replace 14 nodes; guard.maxNodesReplaced is 5; 4 were predicted in the review of #12"},
		"a review does not open the guard":                 {limit: 3, reviewed: []plan.Review{review}, now: hold.Nodes{Replaced: 4}, held: both, reason: "would replace 4 nodes; guard.maxNodesReplaced is 3"},
		"the nodes of a pool are the same in two reviews, and the larger number counts": {limit: -1, reviewed: []plan.Review{pool, class}, now: hold.Nodes{Replaced: 6}, held: both, reason: "would replace 6 nodes; 3 were predicted in the review of #13, #14"},
		"of a plan that is reviewed in part, the reviewed pools are measured": {limit: -1, reviewed: []plan.Review{class}, now: hold.Nodes{Replaced: 104, Pools: map[string]int{"gpu": 4, "cpu": 100}}, held: both,
			reason: "would replace 104 nodes; 4 of them where 1 was predicted in the review of #13"},
		"the others are not": {limit: -1, reviewed: []plan.Review{class}, now: hold.Nodes{Replaced: 103, Pools: map[string]int{"gpu": 3, "cpu": 100}}},
		"and neither reviewed nor lost nodes of them excuse":         {limit: -1, reviewed: []plan.Review{of(reviewed(13, 0, before, after), map[string]int{"gpu": 1, "old": 0})}, now: hold.Nodes{Replaced: 4, Pools: map[string]int{"gpu": 4}}, held: both, reason: "would replace 4 nodes; 1 was predicted in the review of #13"},
		"the pools that a review names are added up":                 {limit: -1, reviewed: []plan.Review{of(review, map[string]int{"gpu": 4, "cpu": 6})}, now: hold.Nodes{Replaced: 9, Removed: 3, Pools: map[string]int{"gpu": 9, "cpu": 3}}},
		"and so are those of several reviews":                        {limit: -1, reviewed: []plan.Review{class, of(pool, map[string]int{"cpu": 3})}, now: hold.Nodes{Replaced: 7, Pools: map[string]int{"gpu": 5, "cpu": 2}}, held: both, reason: "would replace 7 nodes; 4 were predicted in the review of #13, #14"},
		"an open pull request with other content counts for nothing": {limit: -1, reviewed: []plan.Review{reviewed(12, 4, before, other)}, now: hold.Nodes{Replaced: 100}, unconfirmed: true},
		"neither does one of which the revision has only a part":     {limit: -1, reviewed: []plan.Review{reviewed(15, 40, before, append([]string{"NodePool/more=1"}, after...))}, now: hold.Nodes{Replaced: 100}, unconfirmed: true},
		"so that it takes nothing from the one that is all here": {limit: -1, now: hold.Nodes{Replaced: 7}, held: both, reason: "would replace 7 nodes; 4 were predicted in the review of #12",
			reviewed: []plan.Review{reviewed(15, 40, before, append([]string{"NodePool/more=1"}, after...)), review}},
		"one that goes as far as to delete what stays counts for nothing": {limit: -1, reviewed: []plan.Review{reviewed(15, 40, before, slices.DeleteFunc(slices.Clone(after), func(s string) bool { return s == "NodePool/cpu=1" }))}, now: hold.Nodes{Replaced: 100}, unconfirmed: true},
		"a merged one counts though another merge changed its content":    {limit: -1, reviewed: []plan.Review{merged(reviewed(12, 4, before, other))}, now: hold.Nodes{Replaced: 7}, held: both, reason: "would replace 7 nodes; 4 were predicted in the review of #12"},
		"two merges that made of one pool what neither review had are measured by both": {limit: -1, held: both, reason: "would replace 100 nodes; 1 was predicted in the review of #13, #15",
			reviewed: []plan.Review{merged(reviewed(15, 1, before, other)), merged(class)}, now: hold.Nodes{Replaced: 100}},
		"a merged one of no pool allows nothing":                          {limit: -1, reviewed: []plan.Review{merged(of(class, nil))}, now: hold.Nodes{Replaced: 100}, unconfirmed: true},
		"a push of another pool passes beside a merge as it was reviewed": {limit: -1, reviewed: []plan.Review{merged(of(reviewed(12, 4, before, other), map[string]int{"cpu": 4}))}, now: hold.Nodes{Replaced: 104, Pools: map[string]int{"cpu": 4, "gpu": 100}}},
	} {
		t.Run(name, func(t *testing.T) {
			requested := false
			limit := &c.limit
			if c.limit < 0 {
				limit = nil
			}
			if c.now.Pools == nil {
				c.now.Pools = map[string]int{"gpu": c.now.Replaced + c.now.Removed}
			}
			p := rolling(before, after).GuardNodes(limit, c.reviewed, "", func([]plan.Change) hold.Nodes {
				requested = true
				return c.now
			})
			if requested == c.unconfirmed {
				t.Errorf("looked ahead: %v", requested)
			}
			if d := cmp.Diff(append([]string{}, c.held...), heldIn(p)); d != "" {
				t.Errorf("held (-want +got):\n%s", d)
			}
			if c.reason != "" && strings.Join(holds(p), "") != c.reason {
				t.Errorf("reasons %q, want %q", holds(p), c.reason)
			}
		})
	}
}

func TestAHoldOfWhatGrewOutlastsWhatIsMadeBesideIt(t *testing.T) {
	gone := []string{"NodePool/gpu=2", "EC2NodeClass/gpu=2", "NodePool/new=1", "ConfigMap/a=2"}
	for name, c := range map[string]struct {
		reviewed []plan.Review
		from, to []string
		lifted   bool
	}{
		"right after the merge":                                       {[]plan.Review{reviewed(12, 4, before, after)}, before, after, false},
		"and once it is detected":                                     {[]plan.Review{merged(reviewed(12, 4, before, after))}, before, after, false},
		"the new pool is there by now":                                {[]plan.Review{reviewed(12, 4, before, after)}, append([]string{"NodePool/new=1"}, before...), after, false},
		"so is the new class's content":                               {[]plan.Review{reviewed(12, 4, before, after)}, []string{"NodePool/gpu=1", "NodePool/cpu=1", "EC2NodeClass/gpu=2", "NodePool/new=1"}, after, false},
		"a pool that went is gone by now":                             {[]plan.Review{reviewed(12, 4, before, gone)}, []string{"NodePool/gpu=1", "EC2NodeClass/gpu=1"}, gone, false},
		"a hand changed the new pool":                                 {[]plan.Review{reviewed(12, 4, before, after)}, append([]string{"NodePool/new=2!"}, before...), after, false},
		"all is made":                                                 {[]plan.Review{reviewed(12, 4, before, after)}, after, after, true},
		"all is made, and a push changes another pool":                {[]plan.Review{reviewed(12, 4, before, after)}, after, append([]string{"NodePool/cpu=2"}, slices.DeleteFunc(slices.Clone(after), func(s string) bool { return s == "NodePool/cpu=1" })...), true},
		"it is not merged, and a pool is still there that it deletes": {[]plan.Review{reviewed(12, 4, before, gone)}, before, append([]string{"NodePool/cpu=1"}, gone...), true},
	} {
		t.Run(name, func(t *testing.T) {
			many := func([]plan.Change) hold.Nodes {
				return hold.Nodes{Replaced: 7, Pools: map[string]int{"gpu": 7}}
			}
			p := rolling(c.from, c.to).GuardNodes(nil, c.reviewed, "", many)
			if lifted := len(holds(p)) == 0; lifted != c.lifted {
				t.Fatalf("held %v for %q", heldIn(p), holds(p))
			}
			if c.lifted {
				return
			}
			if p = rolling(c.from, c.to).GuardNodes(nil, c.reviewed, token(t, p), many); len(holds(p)) > 0 {
				t.Errorf("confirmed, and held for %q", holds(p))
			}
		})
	}
}

func TestOnlyWhatARevisionChangesOfPoolsIsGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		from, to  []string
		want      []string // what is guarded, and what is asked about
		requested []string
	}{
		"nothing":                         {},
		"other kinds":                     {from: []string{"ConfigMap/a=1", "NodeClaim/a=1"}, to: []string{"ConfigMap/a=2", "NodeClaim/a=2"}},
		"what was changed by hand":        {from: []string{"NodePool/gpu=2!", "EC2NodeClass/gpu=2!", "NodeOverlay/o=2!"}, to: []string{"NodePool/gpu=1", "EC2NodeClass/gpu=1", "NodeOverlay/o=1"}},
		"a pool and a class that come":    {to: []string{"NodePool/gpu=1", "EC2NodeClass/gpu=1"}},
		"an overlay that comes":           {to: []string{"NodePool/gpu=1", "NodeOverlay/o=1"}, want: []string{"NodeOverlay/o"}, requested: []string{"NodeOverlay/o", "NodePool/gpu"}},
		"changes, beside what drifted":    {from: []string{"NodePool/a=1", "NodePool/b=2!", "EC2NodeClass/c=1", "NodeOverlay/o=1"}, to: []string{"NodePool/a=2", "NodePool/b=1", "EC2NodeClass/c=2", "NodeOverlay/o=2"}, want: []string{"EC2NodeClass/c", "NodeOverlay/o", "NodePool/a"}, requested: []string{"EC2NodeClass/c", "NodeOverlay/o", "NodePool/a"}},
		"deletions, with what else comes": {from: []string{"NodePool/a=1", "EC2NodeClass/c=1"}, to: []string{"NodePool/b=1"}, want: []string{"EC2NodeClass/c", "NodePool/a"}, requested: []string{"NodePool/b", "EC2NodeClass/c", "NodePool/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var requested []string
			names := func(changes []plan.Change) []string {
				var out []string
				for _, c := range changes {
					out = append(out, c.Key.Kind+"/"+c.Key.Name)
				}
				return out
			}
			p := rolling(c.from, c.to)
			limit := 0
			p.GuardNodes(&limit, nil, "", func(changes []plan.Change) hold.Nodes {
				requested = names(changes)
				return hold.Nodes{}
			})
			if d := cmp.Diff([][]string{c.want, c.requested}, [][]string{names(p.Guarded()), requested}); d != "" {
				t.Errorf("guarded, and asked about (-want +got):\n%s", d)
			}
		})
	}
}

func TestADeletionOfAPoolThatWasBegunIsNotGuarded(t *testing.T) {
	pool := declared("NodePool/gpu=1")
	pool.Allowed = &loss.Approval{Losses: pool.EffectiveLosses(), Digest: earlier}
	if p := plan.Compute(state.Set{}, state.NewSet(pool)); len(p.Guarded()) != 0 {
		t.Errorf("guarded: %v", p.Guarded())
	}
}

// roll guards the change with a limit of nought.
func roll(nodes int, confirmation string, from, to []string) plan.Plan {
	limit := 0
	return rolling(from, to, plan.Guard(50, confirmation)).GuardNodes(&limit, nil, confirmation, func([]plan.Change) hold.Nodes {
		return hold.Nodes{Replaced: nodes}
	})
}

func TestATokenStandsForTheChangesAndNotForTheNodes(t *testing.T) {
	first := token(t, roll(14, "", before, after))
	for name, c := range map[string]struct {
		nodes    int
		from, to []string
		same     bool
	}{
		"fewer nodes":                      {9, before, after, true},
		"the new pool is there by now":     {14, append([]string{"NodePool/new=1"}, before...), after, true},
		"other objects change as well":     {14, before, append([]string{"ConfigMap/b=1"}, after...), true},
		"what is live was changed by hand": {14, []string{"NodePool/gpu=x", "NodePool/cpu=1", "EC2NodeClass/gpu=1", "ConfigMap/a=1"}, after, true},
		"another pool changes as well":     {14, before, []string{"NodePool/gpu=2", "NodePool/cpu=2", "EC2NodeClass/gpu=2", "ConfigMap/a=2"}, false},
		"a pool changes otherwise":         {14, before, []string{"NodePool/gpu=3", "NodePool/cpu=1", "EC2NodeClass/gpu=2", "ConfigMap/a=2"}, false},
		"a class is updated already":       {14, []string{"NodePool/gpu=1", "NodePool/cpu=1", "EC2NodeClass/gpu=2"}, after, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := token(t, roll(c.nodes, "", c.from, c.to)); (got == first) != c.same {
				t.Errorf("word %s, before %s", got, first)
			}
			if held := len(heldIn(roll(c.nodes, first, c.from, c.to))) > 0; held == c.same {
				t.Errorf("confirmed with the first word and held: %v", held)
			}
		})
	}
}

func TestAConfirmationSavesTheForecast(t *testing.T) {
	limit := 0
	quoted := token(t, roll(14, "", before, after))
	rolling(before, after).GuardNodes(&limit, nil, "another, "+quoted, func([]plan.Change) hold.Nodes {
		t.Error("looked ahead at what is confirmed")
		return hold.Nodes{}
	})
}

func TestAPoolThatIsDeletedNeedsBothTokens(t *testing.T) {
	without := []string{"NodePool/cpu=1", "EC2NodeClass/gpu=2", "ConfigMap/a=1"}
	const impact = "deleting NodePool.karpenter.sh/gpu: 3 nodes, 7 pods"
	const many = "would replace 4 nodes; guard.maxNodesReplaced is 0"
	prune := deletionsOf(rolling(before, without, plan.Guard(50, "")))
	nodes := strings.TrimPrefix(token(t, roll(4, prune, before, without)), prune+",")
	if nodes == "" || nodes == prune || strings.Contains(nodes, ",") {
		t.Fatalf("tokens %q and %q", prune, nodes)
	}
	class, pool := "update EC2NodeClass/gpu", "delete NodePool/gpu"
	for name, c := range map[string]struct {
		confirmation string
		held         []string
		reasons      []string
	}{
		"nothing is confirmed": {"", []string{class, pool}, []string{
			impact + "; " + many, many}},
		"the deletion is, and its token is not taken back by who quotes the other": {prune, []string{class, pool}, []string{many}},
		"the nodes are, and so the other way round":                                {nodes, []string{pool}, []string{impact}},
		"both are":                     {prune + "," + nodes, nil, nil},
		"in any order, with spaces":    {" " + nodes + " , " + prune, nil, nil},
		"neither, for they are joined": {prune + nodes, []string{class, pool}, []string{impact + "; " + many, many}},
	} {
		t.Run(name, func(t *testing.T) {
			p := roll(4, c.confirmation, before, without)
			if d := cmp.Diff(append([]string{}, c.held...), heldIn(p)); d != "" {
				t.Errorf("held (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.reasons, holds(p)); d != "" {
				t.Errorf("reasons (-want +got):\n%s", d)
			}
			// One confirmation for all that waits, whatever part of it is given.
			if all := p.Confirmation(); len(c.held) > 0 && all != prune+","+nodes {
				t.Errorf("it asks for %q", all)
			} else if len(c.held) > 0 && len(heldIn(roll(4, all, before, without))) > 0 {
				t.Error("which does not confirm all of it")
			}
		})
	}
}

func TestAPoolThatGoesIsGuardedThoughNoTokenLetsItGoYet(t *testing.T) {
	limit := 0
	p := rolling(before, []string{"NodePool/cpu=1", "EC2NodeClass/gpu=1", "ConfigMap/a=1"}, func(p plan.Plan) plan.Plan {
		p.Changes[0].Hold = hold.Reasons{{Rule: hold.ReadOnly, Facts: hold.Facts{Detail: "deleting it: 3 nodes"}}}
		return p
	}).GuardNodes(&limit, nil, "", func([]plan.Change) hold.Nodes { return hold.Nodes{Removed: 3} })
	if got := token(t, p); !strings.HasPrefix(got, "nodes-1-") || holds(p)[0] != "deleting it: 3 nodes; would take away 3 nodes with their pools; guard.maxNodesReplaced is 0" {
		t.Errorf("reasons %q", holds(p))
	}
}

func TestAFingerprintIsOfWhatIsThereAfterTheChange(t *testing.T) {
	changed := rolling([]string{"NodePool/gpu=1"}, []string{"NodePool/gpu=2"}).Changes[0].Fingerprint()
	created := rolling(nil, []string{"NodePool/gpu=2"}).Changes[0].Fingerprint()
	if changed != created || changed.Kind != "NodePool" || changed.Name != "gpu" || len(changed.Hash) != 32 {
		t.Errorf("fingerprints %v and %v", changed, created)
	}
	if gone := rolling([]string{"NodePool/gpu=1"}, nil).Changes[0].Fingerprint(); gone != (plan.Fingerprint{Kind: "NodePool", Name: "gpu"}) {
		t.Errorf("of a deletion: %v", gone)
	}
}

func TestHoldsAreKeptUnlessAHandMadeTheChange(t *testing.T) {
	p := rolling([]string{"NodePool/a=1", "NodePool/b=2!", "ConfigMap/a=1"}, []string{"NodePool/a=2", "NodePool/b=1", "ConfigMap/a=2"})
	reasons := map[state.Key]hold.Reasons{}
	for _, c := range p.Changes {
		reasons[c.Key] = hold.Reasons{{Rule: hold.MaxNodesReplaced}}
	}
	if d := cmp.Diff([]string{"update NodePool/a"}, heldIn(p.KeepHolds(reasons))); d != "" {
		t.Errorf("held (-want +got):\n%s", d)
	}
	if len(heldIn(p)) != 0 {
		t.Error("the plan before was changed, too")
	}
}
