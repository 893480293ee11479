package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// side is one of two targets: a target under a name of its own, in which some
// things cannot be read, are read-only or refused.
type side struct {
	fakeTarget
	name                       string
	unknown, compared, refused map[string]string
	// journal is shared by both sides and keeps the order of the writes.
	journal *[]string
	// requested are the things that ObserveOnly was asked for.
	requested []string
}

func (s *side) own(k state.Key) state.Key {
	k.Target = s.name
	return k
}

func (s *side) Desired(ctx context.Context, d state.Set) (state.Set, error) {
	var items []state.Item
	for _, i := range d.Items() {
		if i.Key.Target == s.name {
			i.ReadOnly = s.compared[i.Key.Name]
			items = append(items, i)
		}
	}
	return s.fakeTarget.Desired(ctx, state.NewSet(items...))
}

func (s *side) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	observed, err := s.fakeTarget.Observe(ctx, desired)
	var items []state.Item
	for _, i := range observed.Items() {
		i.Key = s.own(i.Key)
		items = append(items, i)
	}
	for name, why := range s.unknown {
		items = append(items, state.Item{Key: s.own(key(name)), Observation: state.Observation{Unknown: why}})
	}
	return state.NewSet(items...), err
}

func (s *side) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	all, err := s.Observe(ctx, desired)
	var keys []state.Key
	for _, i := range desired.Items() {
		keys = append(keys, i.Key)
		s.requested = append(s.requested, i.Key.Name)
	}
	return all.Only(keys), err
}

func (s *side) Apply(ctx context.Context, c plan.Change) error {
	if why := s.refused[c.Key.Name]; why != "" {
		return errors.New(why)
	}
	*s.journal = append(*s.journal, fmt.Sprintf("%s %s/%s", c.Action, s.name, c.Key.Name))
	return s.fakeTarget.Apply(ctx, c)
}

// plainSide is a side that can only look at everything.
type plainSide struct{ targets.Target }

// both makes two empty sides with one journal.
func both() (aws, cluster *side, journal *[]string) {
	journal = &[]string{}
	empty := func(name string) *side {
		return &side{name: name, journal: journal, fakeTarget: fakeTarget{objects: map[string]string{}}, unknown: map[string]string{}, compared: map[string]string{}, refused: map[string]string{}}
	}
	return empty("aws"), empty("kubernetes"), journal
}

// on declares things of one side.
func on(s *side, pairs ...string) []state.Item {
	items := things(pairs...).Set.Items()
	for i := range items {
		items[i].Key = s.own(items[i].Key)
		items[i].Origin = state.Origin{File: "cluster.yaml", Line: 9}
	}
	return items
}

func of(items ...[]state.Item) declared.Declared {
	return declared.Declared{Set: state.NewSet(slices.Concat(items...)...)}
}

func leading(source *source, revs revisions, aws, cluster targets.Target) *reconciler.Loop {
	return reconciler.NewLoop(source, revs.load, reconciler.NamedTarget{Name: "aws", Target: aws}, reconciler.NamedTarget{Name: "kubernetes", Target: cluster})
}

// one is careful enough for the order of writes to be told.
var one = reconciler.Options{Apply: apply.Options{Concurrency: 1}}

func TestTwoTargetsAreChangedInTheirOrderAndCleanedUpBackwards(t *testing.T) {
	aws, cluster, journal := both()
	aws.objects["old-role"], cluster.objects["old-pool"] = "1", "1"
	loop := leading(&source{revision: "r1"}, revisions{"r1": of(on(aws, "role", "1", "queue", "1"), on(cluster, "class", "1", "role", "1"))}, aws, cluster)
	planned, err := loop.Plan(t.Context(), one)
	if err != nil || len(*journal) != 0 {
		t.Fatalf("Plan: %v, wrote %v", err, *journal)
	}
	ran, err := loop.RunOnce(t.Context(), one)
	if err != nil || ran.Outcome.Err() != nil || ran.Plan.Hash() != planned.Plan.Hash() {
		t.Fatalf("RunOnce: %v, %v; the plan is the one shown: %v", err, ran.Outcome.Err(), ran.Plan.Hash() == planned.Plan.Hash())
	}
	want := []string{
		"create aws/queue", "create aws/role", "create kubernetes/class", "create kubernetes/role",
		"delete kubernetes/old-pool", "delete aws/old-role",
	}
	if d := cmp.Diff(want, *journal); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	if again, err := loop.RunOnce(t.Context(), one); err != nil || !again.Plan.Empty() || again.Plan.Unchanged != 4 || len(*journal) != 6 {
		t.Errorf("a second run: %v, %d unchanged, wrote %v", err, again.Plan.Unchanged, (*journal)[6:])
	}
}

func TestOneTargetsFailureStaysItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		edit         func(aws, cluster *side)
		opts         reconciler.Options
		aws, cluster map[string]string
		unknown      int
		problems     bool
		wantErr      bool
	}{
		"nothing is wrong": {
			edit: func(*side, *side) {},
			aws:  map[string]string{"role": "2"}, cluster: map[string]string{"pool": "2"},
		},
		"what is refused in AWS keeps things there, and the cluster goes on": {
			edit: func(aws, _ *side) { aws.refused["role"] = "AccessDenied" },
			aws:  map[string]string{"role": "1", "old": "1"}, cluster: map[string]string{"pool": "2"},
		},
		"what is refused in the cluster keeps things in AWS too": {
			edit: func(_, cluster *side) { cluster.refused["pool"] = "no" },
			aws:  map[string]string{"role": "2", "old": "1"}, cluster: map[string]string{"pool": "1", "old": "1"},
		},
		"what is unknown in AWS stays, and the cluster goes on": {
			edit: func(aws, _ *side) { aws.unknown["role"] = "denied" },
			aws:  map[string]string{"role": "1", "old": "1"}, cluster: map[string]string{"pool": "2"}, unknown: 1,
		},
		"what would go from AWS and is unknown stays": {
			edit: func(aws, _ *side) { aws.unknown["old"] = "denied" },
			aws:  map[string]string{"role": "2", "old": "1"}, cluster: map[string]string{"pool": "2"}, unknown: 1,
		},
		"what is read-only in AWS stays, and nothing waits for it": {
			edit: func(aws, _ *side) { aws.compared["role"] = "run: aws iam" },
			aws:  map[string]string{"role": "1"}, cluster: map[string]string{"pool": "2"},
		},
		"a policy that closes AWS leaves the cluster open": {
			edit: func(*side, *side) {}, opts: reconciler.Options{Policies: []plan.Policy{plan.ReportTarget("aws")}},
			aws: map[string]string{"role": "1", "old": "1"}, cluster: map[string]string{"pool": "2"},
		},
		"a problem that only AWS finds stops deletions in both, and nothing else": {
			edit: func(aws, _ *side) { aws.problems = []state.Problem{{Message: "no such log type"}} },
			aws:  map[string]string{"role": "2", "old": "1"}, cluster: map[string]string{"pool": "2", "old": "1"}, problems: true,
		},
		"a target that cannot be observed at all stops everything": {
			edit: func(aws, _ *side) { aws.observe = context.Canceled },
			aws:  map[string]string{"role": "1", "old": "1"}, cluster: map[string]string{"pool": "1", "old": "1"}, wantErr: true,
		},
		"and so does the second one": {
			edit: func(_, cluster *side) { cluster.observe = errors.New("list failed") },
			aws:  map[string]string{"role": "1", "old": "1"}, cluster: map[string]string{"pool": "1", "old": "1"}, wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			aws, cluster, _ := both()
			aws.objects = map[string]string{"role": "1", "old": "1"}
			cluster.objects = map[string]string{"pool": "1", "old": "1"}
			c.edit(aws, cluster)
			loop := leading(&source{revision: "r1"}, revisions{"r1": of(on(aws, "role", "2"), on(cluster, "pool", "2"))}, aws, cluster)
			result, err := loop.RunOnce(t.Context(), c.opts)
			if (err != nil) != c.wantErr {
				t.Fatalf("RunOnce: %v", err)
			}
			if d := cmp.Diff([]map[string]string{c.aws, c.cluster}, []map[string]string{aws.objects, cluster.objects}); d != "" {
				t.Errorf("AWS and cluster afterwards (-want +got):\n%s", d)
			}
			if len(result.Plan.Unknown) != c.unknown || (len(result.Problems) > 0) != c.problems {
				t.Errorf("unknown %v, problems %v", result.Plan.Unknown, result.Problems)
			}
		})
	}
}

func TestCorrectGivesEachTargetOnlyItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		keys         func(aws, cluster *side) []state.Key
		plain        bool
		aws, cluster []string // what was read
		writes       []string
	}{
		"a thing of AWS": {
			keys: func(aws, _ *side) []state.Key { return []state.Key{aws.own(key("role"))} },
			aws:  []string{"role"}, writes: []string{"update aws/role"},
		},
		"a thing of the cluster that has a namesake in AWS": {
			keys:    func(_, cluster *side) []state.Key { return []state.Key{cluster.own(key("role"))} },
			cluster: []string{"role"}, writes: []string{"update kubernetes/role"},
		},
		"things of both, AWS first": {
			keys: func(aws, cluster *side) []state.Key {
				return []state.Key{cluster.own(key("pool")), aws.own(key("role")), aws.own(key("stray"))}
			},
			aws: []string{"role"}, cluster: []string{"pool"}, writes: []string{"update aws/role", "update kubernetes/pool"},
		},
		"where AWS can only be observed as a whole, nothing else is taken for undeclared": {
			keys:  func(aws, _ *side) []state.Key { return []state.Key{aws.own(key("role"))} },
			plain: true, writes: []string{"update aws/role"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			aws, cluster, journal := both()
			var t1 targets.Target = aws
			if c.plain {
				t1 = plainSide{aws}
			}
			loop := leading(&source{revision: "r1"}, revisions{"r1": of(on(aws, "role", "1", "queue", "1"), on(cluster, "role", "1", "pool", "1"))}, t1, cluster)
			if _, err := loop.RunOnce(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*side{aws, cluster} {
				for name := range s.objects {
					s.objects[name] = "edited"
				}
				s.objects["stray"] = "1"
			}
			*journal = nil
			result, err := loop.CorrectDrift(t.Context(), c.keys(aws, cluster), one)
			if err != nil || result.Outcome.Err() != nil {
				t.Fatal(err, result.Outcome.Err())
			}
			if d := cmp.Diff([][]string{c.aws, c.cluster, c.writes}, [][]string{aws.requested, cluster.requested, *journal}); d != "" {
				t.Errorf("looked at in AWS, in the cluster, written (-want +got):\n%s", d)
			}
		})
	}
}

func TestCorrectConcludesNothingFromWhatIsUnknown(t *testing.T) {
	aws, cluster, journal := both()
	loop := leading(&source{revision: "r1"}, revisions{"r1": of(on(aws, "role", "1", "queue", "1"), on(cluster, "pool", "1"))}, aws, cluster)
	if _, err := loop.RunOnce(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	*journal = nil
	aws.unknown["role"], cluster.objects["pool"], aws.objects["queue"] = "denied", "edited", "edited"
	result, err := loop.CorrectDrift(t.Context(), []state.Key{aws.own(key("role")), aws.own(key("queue")), cluster.own(key("pool"))}, one)
	if err != nil || result.Outcome.Err() != nil {
		t.Fatal(err, result.Outcome.Err())
	}
	if d := cmp.Diff([]string{"update aws/queue", "update kubernetes/pool"}, *journal); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	if len(result.Plan.Unknown) != 1 || result.Plan.Unknown[0].Key.Name != "role" {
		t.Errorf("unknown %v", result.Plan.Unknown)
	}
}

func TestReleaseEmptiesBothTargetsButForWhatCouldNotBeRead(t *testing.T) {
	aws, cluster, journal := both()
	aws.objects["role"], aws.objects["lost"], cluster.objects["pool"] = "1", "1", "1"
	loop := leading(&source{}, nil, aws, cluster)
	aws.unknown["lost"] = "denied"
	result, err := loop.Finalize(t.Context(), one)
	if err != nil || len(result.Plan.Unknown) != 1 {
		t.Fatalf("Release: %v, unknown %v", err, result.Plan.Unknown)
	}
	// The role is of the same kind as what is unknown here, and waits for it.
	if d := cmp.Diff([]string{"delete kubernetes/pool"}, *journal); d != "" {
		t.Errorf("writes (-want +got):\n%s", d)
	}
	delete(aws.unknown, "lost")
	if result, err = loop.Finalize(t.Context(), one); err != nil || result.Outcome.Err() != nil {
		t.Fatal(err, result.Outcome.Err())
	}
	if len(aws.objects)+len(cluster.objects) != 0 {
		t.Errorf("left: %v and %v", aws.objects, cluster.objects)
	}
}
