package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func TestRunGivesEachChangeOneStatus(t *testing.T) {
	refuse := func(names ...string) func(context.Context, plan.Change) error {
		return func(_ context.Context, c plan.Change) error {
			if slices.Contains(names, c.Key.Name) {
				return errors.New("refused")
			}
			return nil
		}
	}
	tests := []struct {
		name    string
		changes []plan.Change
		correct func(context.Context, plan.Change) error
		opts    Options
		want    map[string]Status
	}{
		{
			name:    "everything is made when nothing is refused",
			changes: []plan.Change{change(plan.Create, "w", "new", 0), change(plan.Update, "w", "edited", 1), change(plan.Delete, "w", "old", 0)},
			want:    map[string]Status{"new": Applied, "edited": Applied, "old": Applied},
		},
		{
			name:    "one refused thing does not stop its wave or the next",
			changes: []plan.Change{change(plan.Create, "w", "a", 0), change(plan.Create, "w", "bad", 0), change(plan.Create, "w", "c", 0), change(plan.Create, "w", "later", 1)},
			correct: refuse("bad"),
			want:    map[string]Status{"a": Applied, "bad": Failed, "c": Applied, "later": Applied},
		},
		{
			name:    "a failed creation keeps what it replaces",
			changes: []plan.Change{change(plan.Create, "w", "renamed", 0), change(plan.Delete, "w", "old", 0)},
			correct: refuse("renamed"),
			want:    map[string]Status{"renamed": Failed, "old": NotAttempted},
		},
		{
			name:    "a failed update keeps everything too",
			changes: []plan.Change{change(plan.Update, "w", "edited", 0), change(plan.Delete, "w", "old", 0)},
			correct: refuse("edited"),
			want:    map[string]Status{"edited": Failed, "old": NotAttempted},
		},
		{
			name:    "a held creation keeps what it replaces",
			changes: []plan.Change{held(change(plan.Create, "w", "renamed", 0)), change(plan.Delete, "w", "old", 0)},
			want:    map[string]Status{"renamed": Held, "old": NotAttempted},
		},
		{
			name:    "a held creation that is drift does not stop deletions",
			changes: []plan.Change{drifted(held(change(plan.Create, "w", "gone", 0))), change(plan.Delete, "w", "old", 0)},
			want:    map[string]Status{"gone": Held, "old": Applied},
		},
		{
			name:    "a held update keeps what it may still need",
			changes: []plan.Change{held(change(plan.Update, "w", "class", 0)), change(plan.Delete, "w", "old", 0)},
			want:    map[string]Status{"class": Held, "old": NotAttempted},
		},
		{
			name:    "a held update that is drift does not stop deletions",
			changes: []plan.Change{drifted(held(change(plan.Update, "w", "theirs", 0))), change(plan.Delete, "w", "old", 0)},
			want:    map[string]Status{"theirs": Held, "old": Applied},
		},
		{
			name:    "a failed deletion does not stop the others",
			changes: []plan.Change{change(plan.Delete, "w", "stuck", 1), change(plan.Delete, "w", "old", 0)},
			correct: refuse("stuck"),
			want:    map[string]Status{"stuck": Failed, "old": Applied},
		},
		{
			name:    "held deletions are held and the others made",
			changes: []plan.Change{held(change(plan.Delete, "w", "pool", 0)), change(plan.Delete, "w", "old", 0)},
			want:    map[string]Status{"pool": Held, "old": Applied},
		},
		{
			name:    "an incomplete desired set deletes nothing and still creates",
			changes: []plan.Change{change(plan.Create, "w", "new", 0), change(plan.Delete, "w", "old", 0)},
			opts:    Options{NoDeletes: true},
			want:    map[string]Status{"new": Applied, "old": NotAttempted},
		},
		{
			name:    "a conflict is its own status and keeps deletions back",
			changes: []plan.Change{change(plan.Update, "w", "theirs", 0), change(plan.Delete, "w", "old", 0)},
			correct: func(_ context.Context, c plan.Change) error {
				return fmt.Errorf("fields of flux: %w", targets.ErrConflict)
			},
			want: map[string]Status{"theirs": Conflict, "old": NotAttempted},
		},
		{
			name:    "a target that is not there fails its changes only",
			changes: []plan.Change{change(plan.Create, "nowhere", "lost", 0), change(plan.Create, "w", "new", 0)},
			want:    map[string]Status{"lost": Failed, "new": Applied},
		},
		{
			name:    "a panic is the error of its change only",
			changes: []plan.Change{change(plan.Create, "w", "bomb", 0), change(plan.Create, "w", "new", 0)},
			correct: func(_ context.Context, c plan.Change) error {
				if c.Key.Name == "bomb" {
					panic("token=hunter2")
				}
				return nil
			},
			want: map[string]Status{"bomb": Failed, "new": Applied},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newFakeTarget("w", &journal{})
			w.correct = tt.correct
			got := Run(t.Context(), plan.Plan{Changes: tt.changes}, one(w), tt.opts)
			if d := cmp.Diff(tt.want, statuses(got)); d != "" {
				t.Errorf("statuses (-want +got):\n%s", d)
			}
			for i, r := range got.Results {
				if r.Change.Key != tt.changes[i].Key {
					t.Errorf("result %d is of %s, want %s", i, r.Change.Key, tt.changes[i].Key)
				}
				if expectNoReport := r.Status == Applied || r.Status == Held; expectNoReport != (r.Err == nil) {
					t.Errorf("%s is %s with error %v", r.Change.Key, r.Status, r.Err)
				}
			}
		})
	}
}

func TestRunWritesNothingWhenTheIntentCannotBeRecorded(t *testing.T) {
	j := &journal{}
	first, second := newFakeTarget("first", j), newFakeTarget("second", j)
	second.begin = func([]plan.Change) error { return errors.New("etcd is full") }
	p := plan.Plan{Changes: []plan.Change{change(plan.Create, "first", "a", 0), change(plan.Create, "second", "b", 0)}}
	got := Run(t.Context(), p, map[string]targets.Target{"first": first, "second": second}, Options{})
	if d := cmp.Diff([]string{"begin first", "begin second", "finish first"}, j.list()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]Status{"a": NotAttempted, "b": NotAttempted}, statuses(got)); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	if err := got.Err(); err == nil || !strings.Contains(err.Error(), "etcd is full") {
		t.Errorf("Err() = %v, want the reason", err)
	}
}

func TestRunRecordsExactlyWhatItMayDo(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	p := plan.Plan{Changes: []plan.Change{
		change(plan.Create, "w", "new", 0), held(change(plan.Update, "w", "held", 0)), change(plan.Delete, "w", "old", 0),
	}}
	Run(t.Context(), p, one(w), Options{NoDeletes: true})
	want := map[state.Key]bool{p.Changes[0].Key: true}
	if d := cmp.Diff(want, w.intent); d != "" {
		t.Errorf("intent (-want +got):\n%s", d)
	}
}

// What an observation changed in a record, such as an approval that was revoked, is
// stored before anything is written, also where nothing else is to be written in its target.
func TestRunLetsEachTargetRecordBeforeTheFirstWrite(t *testing.T) {
	j := &journal{}
	first, second := newFakeTarget("first", j), newFakeTarget("second", j)
	p := plan.Plan{Changes: []plan.Change{change(plan.Create, "first", "a", 0), held(change(plan.Update, "second", "b", 0))}}
	Run(t.Context(), p, map[string]targets.Target{"first": first, "second": second}, Options{})
	if d := cmp.Diff([]string{"begin first", "begin second"}, j.list()[:2]); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if got := j.list(); !slices.Contains(got, "finish second") {
		t.Errorf("the second target never ends: %v", got)
	}
	if len(second.intent) != 0 {
		t.Errorf("it records %v as about to be changed", second.intent)
	}
}

// What is skipped must not be remembered as allowed: by the time that nothing keeps it
// any more, much more may go with it.
func TestRunRecordsNoDeletionThatItSkips(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan func() plan.Plan
		stop bool // while the creation is made
		fail bool // the creation
		want []string
	}{
		{name: "what is about to be sent is recorded", want: []string{"new", "old"}},
		{name: "a creation failed", fail: true, want: []string{"new"}},
		{name: "the run is stopped before", stop: true, want: []string{"new"}},
		{name: "a creation is held", plan: func() plan.Plan {
			return plan.Plan{Changes: []plan.Change{held(change(plan.Create, "w", "new", 0)), change(plan.Delete, "w", "old", 0)}}
		}},
		{name: "one of its kind is unknown", plan: func() plan.Plan {
			c := change(plan.Delete, "w", "old", 0)
			return plan.Plan{Changes: []plan.Change{c}, Unknown: []plan.Unknown{{Key: c.Key}}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := newFakeTarget("w", &journal{})
			w.correct = func(context.Context, plan.Change) error {
				if tt.stop {
					cancel()
				}
				if tt.fail {
					return errors.New("a webhook says no")
				}
				return nil
			}
			p := plan.Plan{Changes: []plan.Change{change(plan.Create, "w", "new", 0), change(plan.Delete, "w", "old", 0)}}
			if tt.plan != nil {
				p = tt.plan()
			}
			Run(ctx, p, one(w), Options{})
			var recorded []string
			for k := range w.intent {
				recorded = append(recorded, k.Name)
			}
			slices.Sort(recorded)
			if d := cmp.Diff(tt.want, recorded); d != "" {
				t.Errorf("recorded (-want +got):\n%s", d)
			}
		})
	}
}

func TestRunDeletesNothingWhenThatCannotBeRecorded(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	w.begin = func(changes []plan.Change) error {
		if changes[0].Action == plan.Delete {
			return errors.New("etcd is full")
		}
		return nil
	}
	got := Run(t.Context(), plan.Plan{Changes: []plan.Change{change(plan.Create, "w", "new", 0), change(plan.Delete, "w", "old", 0)}}, one(w), Options{})
	if d := cmp.Diff(map[string]Status{"new": Applied, "old": NotAttempted}, statuses(got)); d != "" || w.ended != 1 {
		t.Errorf("ended %d times, statuses (-want +got):\n%s", w.ended, d)
	}
	if err := got.Err(); err == nil || !strings.Contains(err.Error(), "etcd is full") {
		t.Errorf("Err() = %v, want the reason", err)
	}
}

func TestRunOnlyLetsTargetsEndWhenThereIsNothingToDo(t *testing.T) {
	j := &journal{}
	w := newFakeTarget("w", j)
	Run(t.Context(), plan.Plan{Changes: []plan.Change{held(change(plan.Update, "w", "held", 0))}}, one(w), Options{})
	if d := cmp.Diff([]string{"finish w"}, j.list()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestRunKeepsTheOrderOfTargetsAndWavesUnderConcurrency(t *testing.T) {
	j := &journal{}
	var changes []plan.Change
	for wave := range 3 {
		for n := range 20 {
			for _, in := range []string{"kubernetes", "aws"} {
				changes = append(changes,
					change(plan.Create, in, fmt.Sprintf("%s/new/%d/%d", in, wave, n), wave),
					change(plan.Delete, in, fmt.Sprintf("%s/old/%d/%d", in, wave, n), wave))
			}
		}
	}
	byName := map[string]targets.Target{"kubernetes": newFakeTarget("kubernetes", j), "aws": newFakeTarget("aws", j)}
	got := Run(t.Context(), plan.Plan{Changes: changes}, byName, Options{Order: []string{"aws", "kubernetes"}, Concurrency: 7})
	if n := len(got.Applied()); n != len(changes) {
		t.Fatalf("applied %d of %d", n, len(changes))
	}
	var groups []string
	for _, e := range j.list() {
		parts := strings.Split(e, "/")
		group := e
		if len(parts) > 1 {
			texts := strings.Fields(parts[0])
			group = texts[len(texts)-1] + " " + parts[1] + " " + parts[2]
		}
		if len(groups) == 0 || groups[len(groups)-1] != group {
			groups = append(groups, group)
		}
	}
	want := []string{
		"begin aws", "begin kubernetes",
		"aws new 0", "ready aws 20", "aws new 1", "ready aws 20", "aws new 2",
		"kubernetes new 0", "ready kubernetes 20", "kubernetes new 1", "ready kubernetes 20", "kubernetes new 2",
		"begin aws", "begin kubernetes",
		"kubernetes old 2", "kubernetes old 1", "kubernetes old 0",
		"aws old 2", "aws old 1", "aws old 0",
		"finish aws", "finish kubernetes",
	}
	if d := cmp.Diff(want, groups); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestRunMakesAsManyChangesAtATimeAsItsLimitAndNoMore(t *testing.T) {
	const limit = 5
	var now, most atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	w := newFakeTarget("w", &journal{})
	w.correct = func(ctx context.Context, _ plan.Change) error {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == limit {
			once.Do(func() { close(full) })
		}
		select {
		case <-full:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var changes []plan.Change
	for n := range 40 {
		changes = append(changes, change(plan.Create, "w", fmt.Sprint(n), 0))
	}
	got := Run(t.Context(), plan.Plan{Changes: changes}, one(w), Options{Concurrency: limit, ChangeTimeout: 20 * time.Second})
	if err := got.Err(); err != nil {
		t.Fatalf("never %d at a time: %v", limit, err)
	}
	if most.Load() != limit {
		t.Errorf("%d at a time, want %d", most.Load(), limit)
	}
}

func TestRunGoesOnWhenAWaveIsNotReady(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	bad := change(plan.Create, "w", "crd", 0)
	w.ready = func(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
		<-ctx.Done()
		return map[state.Key]string{bad.Key: "not established"}, ctx.Err()
	}
	p := plan.Plan{Changes: []plan.Change{bad, change(plan.Create, "w", "ok", 0), change(plan.Create, "w", "object", 1)}}
	got := Run(t.Context(), p, one(w), Options{ReadyTimeout: time.Millisecond})
	if d := cmp.Diff(map[string]Status{"crd": Applied, "ok": Applied, "object": Applied}, statuses(got)); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]NotReady{{Key: bad.Key, Reason: "not established"}}, got.NotReady); d != "" {
		t.Errorf("not ready (-want +got):\n%s", d)
	}
	if _, reason, _ := state.Classify(got.Err()); reason != "NotReady" {
		t.Errorf("reason %q, want NotReady", reason)
	}
}

func TestRunReportsEveryThingWhenReadinessIsUnknown(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	w.ready = func(context.Context, []state.Key) (map[state.Key]string, error) { panic(errors.New("no cache")) }
	p := plan.Plan{Changes: []plan.Change{change(plan.Create, "w", "b", 0), change(plan.Create, "w", "a", 0), change(plan.Create, "w", "last", 1)}}
	got := Run(t.Context(), p, one(w), Options{})
	if len(got.NotReady) != 2 || got.NotReady[0].Key.Name != "a" || len(got.Applied()) != 3 {
		t.Errorf("not ready %v, applied %d", got.NotReady, len(got.Applied()))
	}
}

func TestRunWorksWithTargetsThatHaveNoExtraAbilities(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	p := plan.Plan{Changes: []plan.Change{change(plan.Create, "w", "a", 0), change(plan.Create, "w", "b", 1)}}
	got := Run(t.Context(), p, map[string]targets.Target{"w": bare{w}}, Options{})
	if len(got.Applied()) != 2 || got.Err() != nil || len(w.intent) != 0 {
		t.Errorf("applied %v, err %v", statuses(got), got.Err())
	}
}

func TestRunGivesUpOnAChangeThatHangs(t *testing.T) {
	w := newFakeTarget("w", &journal{})
	w.correct = func(ctx context.Context, c plan.Change) error {
		if c.Key.Name == "hangs" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	p := plan.Plan{Changes: []plan.Change{change(plan.Create, "w", "hangs", 0), change(plan.Create, "w", "ok", 1)}}
	got := Run(t.Context(), p, one(w), Options{ChangeTimeout: time.Millisecond})
	if d := cmp.Diff(map[string]Status{"hangs": Failed, "ok": Applied}, statuses(got)); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
}
