package apply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// standing makes the change one of a thing that is read-only.
func standing(c plan.Change) plan.Change {
	for _, item := range []*state.Item{c.Before, c.After} {
		if item != nil {
			item.ReadOnly = "run: aws eks create-addon"
		}
	}
	c.Hold = hold.Reasons{{Rule: hold.ReadOnly, Facts: hold.Facts{Detail: "run: aws eks create-addon"}}}
	return c
}

func impact(c plan.Change) plan.Change {
	c.Before.Impact = "3 nodes, 7 pods"
	return c
}

func of(kind string, c plan.Change) plan.Change {
	c.Key.Kind = kind
	return c
}

// inOrder is how AWS and the cluster are led: the cluster stands on AWS.
var inOrder = Options{Order: []string{"aws", "kubernetes"}}

func two(j *journal, correct func(context.Context, plan.Change) error) (aws, cluster *fakeTarget, byName map[string]targets.Target) {
	aws, cluster = newFakeTarget("aws", j), newFakeTarget("kubernetes", j)
	aws.correct, cluster.correct = correct, correct
	return aws, cluster, map[string]targets.Target{"aws": aws, "kubernetes": cluster}
}

func TestADeletionWaitsOnlyForWhatMayNeedWhatGoes(t *testing.T) {
	lost := plan.Unknown{Key: state.Key{Target: "aws", Kind: "Queue", Name: "renamed"}, Reason: "denied"}
	tests := []struct {
		name    string
		changes []plan.Change
		unknown []plan.Unknown
		refused []string
		why     map[string]error // of the deletions that are skipped
	}{
		{
			name:    "what AWS refuses keeps things in AWS, and not in the cluster",
			changes: []plan.Change{change(plan.Create, "aws", "role", 0), change(plan.Create, "kubernetes", "class", 0), change(plan.Delete, "kubernetes", "old-map", 0), change(plan.Delete, "aws", "old-role", 0)},
			refused: []string{"role"},
			why:     map[string]error{"old-role": errNotReplaced},
		},
		{
			name:    "what the cluster refuses keeps things in AWS too, for it stands on them",
			changes: []plan.Change{change(plan.Update, "kubernetes", "class", 0), change(plan.Delete, "kubernetes", "old-map", 0), change(plan.Delete, "aws", "old-role", 0)},
			refused: []string{"class"},
			why:     map[string]error{"old-map": errNotReplaced, "old-role": errNotReplaced},
		},
		{
			name:    "a pool with nodes waits for AWS, because its nodes could not come back",
			changes: []plan.Change{change(plan.Create, "aws", "role", 0), impact(change(plan.Delete, "kubernetes", "old-pool", 0)), change(plan.Delete, "kubernetes", "old-map", 0)},
			refused: []string{"role"},
			why:     map[string]error{"old-pool": errNotReplaced},
		},
		{
			name:    "a creation that is held in AWS keeps things in AWS, and not in the cluster",
			changes: []plan.Change{held(change(plan.Create, "aws", "role", 0)), change(plan.Delete, "kubernetes", "old-map", 0), change(plan.Delete, "aws", "old-role", 0)},
			why:     map[string]error{"old-role": errHeldChange},
		},
		{
			name:    "an update that is held in the cluster keeps what it may still need, there and in AWS",
			changes: []plan.Change{held(change(plan.Update, "kubernetes", "class", 0)), change(plan.Delete, "kubernetes", "old-map", 0), change(plan.Delete, "aws", "old-role", 0)},
			why:     map[string]error{"old-map": errHeldChange, "old-role": errHeldChange},
		},
		{
			name:    "drift that is held keeps nothing back",
			changes: []plan.Change{held(drifted(change(plan.Update, "kubernetes", "class", 0))), change(plan.Delete, "kubernetes", "old-map", 0), change(plan.Delete, "aws", "old-role", 0)},
		},
		{
			name:    "a failure goes before a held creation in what is reported",
			changes: []plan.Change{held(change(plan.Create, "aws", "role", 0)), change(plan.Update, "aws", "rule", 0), change(plan.Delete, "aws", "old-role", 0)},
			refused: []string{"rule"},
			why:     map[string]error{"old-role": errNotReplaced},
		},
		{
			name:    "in whatever order they come",
			changes: []plan.Change{change(plan.Update, "aws", "rule", 0), held(change(plan.Create, "aws", "role", 0)), change(plan.Delete, "aws", "old-role", 0)},
			refused: []string{"rule"},
			why:     map[string]error{"old-role": errNotReplaced},
		},
		{
			name:    "a missing thing that is read-only keeps nothing back",
			changes: []plan.Change{standing(change(plan.Create, "aws", "addon", 0)), change(plan.Delete, "aws", "old-role", 0), impact(change(plan.Delete, "kubernetes", "old-pool", 0))},
		},
		{
			name:    "a deletion that failed keeps no other back",
			changes: []plan.Change{change(plan.Delete, "kubernetes", "stuck", 0), change(plan.Delete, "aws", "old-role", 0)},
			refused: []string{"stuck"},
		},
		{
			name:    "an unknown thing keeps those of its kind, and no others",
			changes: []plan.Change{of("Queue", change(plan.Delete, "aws", "old-queue", 0)), of("Rule", change(plan.Delete, "aws", "old-rule", 0)), of("Queue", change(plan.Delete, "kubernetes", "old-map", 0))},
			unknown: []plan.Unknown{lost},
			why:     map[string]error{"old-queue": errUnknown},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, byName := two(&journal{}, func(_ context.Context, c plan.Change) error {
				if slices.Contains(tt.refused, c.Key.Name) {
					return errors.New("denied")
				}
				return nil
			})
			got := Run(t.Context(), plan.Plan{Changes: tt.changes, Unknown: tt.unknown}, byName, inOrder)
			for _, r := range got.Results {
				name := r.Change.Key.Name
				switch why := tt.why[name]; {
				case why != nil && (r.Status != NotAttempted || !errors.Is(r.Err, why)):
					t.Errorf("%s is %s: %v, want %v", name, r.Status, r.Err, why)
				case why == nil && slices.Contains(tt.refused, name) != (r.Status == Failed):
					t.Errorf("%s is %s: %v", name, r.Status, r.Err)
				case why == nil && r.Change.Admitted() && r.Status != Applied && r.Status != Failed:
					t.Errorf("%s is %s: %v", name, r.Status, r.Err)
				}
			}
		})
	}
}

func TestAFailureInAWSKeepsNothingFromTheCluster(t *testing.T) {
	changes := []plan.Change{
		change(plan.Create, "aws", "role", 0), change(plan.Create, "aws", "queue", 0), change(plan.Create, "aws", "rule", 1),
		change(plan.Create, "kubernetes", "class", 0), change(plan.Create, "kubernetes", "pool", 1), change(plan.Delete, "kubernetes", "old", 0),
	}
	t.Run("where everything is refused", func(t *testing.T) {
		_, _, byName := two(&journal{}, func(_ context.Context, c plan.Change) error {
			if c.Key.Target == "aws" {
				return errors.New("ExpiredToken")
			}
			return nil
		})
		got := Run(t.Context(), plan.Plan{Changes: changes}, byName, inOrder)
		want := map[string]Status{"role": Failed, "queue": Failed, "rule": Failed, "class": Applied, "pool": Applied, "old": Applied}
		if d := cmp.Diff(want, statuses(got)); d != "" {
			t.Errorf("statuses (-want +got):\n%s", d)
		}
	})
	t.Run("where nothing becomes ready", func(t *testing.T) {
		j := &journal{}
		aws, _, byName := two(j, nil)
		aws.ready = func(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
			<-ctx.Done()
			return map[state.Key]string{keys[0]: "not found yet"}, nil
		}
		opts := inOrder
		opts.ReadyTimeout = time.Millisecond
		got := Run(t.Context(), plan.Plan{Changes: changes}, byName, opts)
		if len(got.Applied()) != len(changes) || len(got.NotReady) != 1 {
			t.Errorf("applied %v, not ready %v", statuses(got), got.NotReady)
		}
		// The last wave of AWS is not awaited: nothing of AWS comes after it.
		if events := j.list(); slices.Contains(events, "ready aws 1") || !slices.Contains(events, "ready aws 2") {
			t.Errorf("it waited for other waves: %v", events)
		}
	})
	t.Run("where its target panics", func(t *testing.T) {
		_, _, byName := two(&journal{}, func(_ context.Context, c plan.Change) error {
			if c.Key.Target == "aws" {
				panic("a bug")
			}
			return nil
		})
		if got := Run(t.Context(), plan.Plan{Changes: changes}, byName, inOrder); len(got.Applied()) != 3 {
			t.Errorf("applied %v", statuses(got))
		}
	})
}

func TestWhatIsOnlyComparedReachesNoTarget(t *testing.T) {
	j := &journal{}
	aws, _, byName := two(j, nil)
	p := plan.Plan{Changes: []plan.Change{standing(change(plan.Create, "aws", "addon", 0)), standing(change(plan.Update, "aws", "version", 0)), standing(change(plan.Delete, "aws", "role", 0))}}
	got := Run(t.Context(), p, byName, inOrder)
	if d := cmp.Diff(map[string]Status{"addon": Skipped, "version": Skipped, "role": Skipped}, statuses(got)); d != "" || got.Err() != nil {
		t.Errorf("statuses (-want +got):\n%s\nerr %v", d, got.Err())
	}
	if len(aws.intent) != 0 || len(aws.writes) != 0 {
		t.Errorf("intent %v, writes %v", aws.intent, aws.writes)
	}
}

// nodes makes the change one with which nodes go.
func nodes(c plan.Change) plan.Change {
	c.Before.Impact, c.Before.Losses = "3 nodes go with it", loss.Counts{"Node": 3}
	return c
}

// last makes the change one that comes after nodes.
func last(c plan.Change) plan.Change {
	c.Before.AfterNodes = true
	return c
}

func TestWhatNodesNeedChangesAfterTheDeletionsWithWhichNodesGo(t *testing.T) {
	engineOff := func() plan.Change { return last(change(plan.Update, "kubernetes", "engine", 0)) }
	role := func() plan.Change { return nodes(last(change(plan.Delete, "aws", "role", 0))) }
	pool := func() plan.Change { return nodes(change(plan.Delete, "kubernetes", "pool", 0)) }
	tests := []struct {
		name    string
		changes []plan.Change
		opts    Options
		refused []string
		want    map[string]Status
		order   []string
	}{
		{
			name:    "all of it is made, the engine's update after the deletion of a pool and before that of a role",
			changes: []plan.Change{engineOff(), role(), pool(), change(plan.Update, "kubernetes", "map", 5)},
			want:    map[string]Status{"engine": Applied, "role": Applied, "pool": Applied, "map": Applied},
			order:   []string{"map", "pool", "engine", "role"},
		},
		{
			name:    "the deletion of the pool is held",
			changes: []plan.Change{engineOff(), role(), held(pool())},
			want:    map[string]Status{"engine": NotAttempted, "role": NotAttempted, "pool": Held},
		},
		{
			name:    "the deletion of the pool is refused",
			changes: []plan.Change{engineOff(), role(), pool()},
			refused: []string{"pool"},
			want:    map[string]Status{"engine": NotAttempted, "role": NotAttempted, "pool": Failed},
			order:   []string{"pool"},
		},
		{
			name:    "the deletion of the pool waits for a creation",
			changes: []plan.Change{engineOff(), role(), pool(), change(plan.Create, "kubernetes", "new", 0)},
			refused: []string{"new"},
			want:    map[string]Status{"engine": NotAttempted, "role": NotAttempted, "pool": NotAttempted, "new": Failed},
			order:   []string{"new"},
		},
		{
			name:    "nothing may be deleted",
			changes: []plan.Change{engineOff(), pool()},
			opts:    Options{NoDeletes: true},
			want:    map[string]Status{"engine": NotAttempted, "pool": NotAttempted},
		},
		{
			name:    "the deletion of the pool is held, and only the role's deletion comes last",
			changes: []plan.Change{role(), held(pool())},
			want:    map[string]Status{"role": NotAttempted, "pool": Held},
		},
		{
			name:    "nothing may be deleted, so that the plan has no deletion",
			changes: []plan.Change{engineOff(), change(plan.Update, "kubernetes", "map", 5)},
			opts:    Options{NoDeletes: true},
			want:    map[string]Status{"engine": NotAttempted, "map": Applied},
			order:   []string{"map"},
		},
		{
			name:    "the engine's update is held and the pool goes, the role does not",
			changes: []plan.Change{held(engineOff()), role(), pool()},
			want:    map[string]Status{"engine": Held, "role": NotAttempted, "pool": Applied},
			order:   []string{"pool"},
		},
		{
			name:    "the engine's update waits and the pool goes, the role does not",
			changes: []plan.Change{engineOff(), role(), pool()},
			refused: []string{"engine"},
			want:    map[string]Status{"engine": Failed, "role": NotAttempted, "pool": Applied},
			order:   []string{"pool", "engine"},
		},
		{
			name:    "a deletion with which no node goes keeps nothing",
			changes: []plan.Change{engineOff(), role(), held(change(plan.Delete, "kubernetes", "pool", 0))},
			want:    map[string]Status{"engine": Applied, "role": Applied, "pool": Held},
			order:   []string{"engine", "role"},
		},
		{
			name:    "a deletion that is read-only keeps nothing",
			changes: []plan.Change{engineOff(), standing(pool())},
			want:    map[string]Status{"engine": Applied, "pool": Skipped},
			order:   []string{"engine"},
		},
		{
			name:    "of what comes last one that is held keeps no other",
			changes: []plan.Change{held(role()), last(nodes(change(plan.Delete, "kubernetes", "kubernetes", 0)))},
			want:    map[string]Status{"role": Held, "kubernetes": Applied},
			order:   []string{"kubernetes"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var made []string
			_, _, byName := two(&journal{}, func(_ context.Context, c plan.Change) error {
				made = append(made, c.Key.Name)
				if slices.Contains(tt.refused, c.Key.Name) {
					return errors.New("denied")
				}
				return nil
			})
			tt.opts.Order = inOrder.Order
			got := Run(t.Context(), plan.Plan{Changes: tt.changes}, byName, tt.opts)
			if d := cmp.Diff(tt.want, statuses(got)); d != "" {
				t.Errorf("statuses (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.order, made); d != "" {
				t.Errorf("sent (-want +got):\n%s", d)
			}
		})
	}
}

func TestNothingComesAfterDeletionsThatCouldNotBeRecorded(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	w.begin = func(changes []plan.Change) error {
		if slices.ContainsFunc(changes, func(c plan.Change) bool { return c.Action == plan.Delete }) {
			return errors.New("full")
		}
		return nil
	}
	got := Run(t.Context(), plan.Plan{Changes: []plan.Change{
		last(change(plan.Update, "w", "engine", 0)), change(plan.Delete, "w", "old", 0), last(change(plan.Delete, "w", "role", 0)),
	}}, one(w), Options{})
	if d := cmp.Diff(map[string]Status{"engine": NotAttempted, "old": NotAttempted, "role": NotAttempted}, statuses(got)); d != "" || got.Err() == nil {
		t.Errorf("statuses (-want +got):\n%s\nerr %v", d, got.Err())
	}
}

// What comes last is deleted only if the plan still holds by then.
func TestThePlanIsComputedOnceMoreBeforeWhatComesLast(t *testing.T) {
	requested := 0
	var made []string
	_, _, byName := two(&journal{}, func(_ context.Context, c plan.Change) error {
		made = append(made, c.Key.Name)
		return nil
	})
	got := Run(t.Context(), plan.Plan{Changes: []plan.Change{
		nodes(change(plan.Delete, "kubernetes", "pool", 0)), last(nodes(change(plan.Delete, "aws", "role", 0))),
	}}, byName, Options{Order: inOrder.Order, BeforeDeletes: func(context.Context) error {
		if requested++; requested > 1 {
			return errors.New("suspended")
		}
		return nil
	}})
	if d := cmp.Diff([]string{"pool"}, made); d != "" || requested != 2 || got.Err() == nil {
		t.Errorf("asked %d times, sent (-want +got):\n%s\nerr %v", requested, d, got.Err())
	}
}
