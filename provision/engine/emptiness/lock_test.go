package emptiness

import (
	"context"
	"errors"
	"testing"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	disruptionutils "sigs.k8s.io/karpenter/pkg/utils/disruption"
)

// simulation is a method whose commands take until released.
type simulation struct {
	disruption.Method
	started, release chan struct{}
	err              error
	panics           bool
	meanwhile        func()
	replacements     []*disruption.Replacement
	totals           map[string]disruption.NodePoolTotals
}

func (s *simulation) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) {
	s.totals = totals
}

func (s *simulation) ComputeCommands(context.Context, map[string]int, ...*disruption.Candidate) ([]disruption.Command, error) {
	close(s.started)
	<-s.release
	if s.meanwhile != nil {
		s.meanwhile()
	}
	if s.panics {
		panic("no such type")
	}
	return []disruption.Command{{Candidates: []*disruption.Candidate{candidate("slow", 1)}, Replacements: s.replacements}}, s.err
}

// synced is true of the cluster's state.
func synced(context.Context) bool { return true }

func candidate(pool string, price float64) *disruption.Candidate {
	return &disruption.Candidate{
		NodePool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}},
		Price:    price, RescheduleDisruptionCost: disruptionutils.PerNodeBaseDisruptionCost,
	}
}

type reconcileFunc func(context.Context) (reconciler.Result, error)

func (f reconcileFunc) Reconcile(ctx context.Context) (reconciler.Result, error) { return f(ctx) }

// simulate runs a method as a controller does, and returns its commands once it is released.
// While it computes, meanwhile runs.
func simulate(t *testing.T, lock *Lock, s *simulation, meanwhile func()) (commands []disruption.Command, err error) {
	t.Helper()
	s.started, s.release = make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	method := lock.Decorate(s)
	go func() {
		defer close(done)
		_, err = lock.Reconciler(reconcileFunc(func(ctx context.Context) (_ reconciler.Result, err error) {
			defer func() {
				if recover() != nil {
					err = errors.New("panicked")
				}
			}()
			commands, err = method.ComputeCommands(ctx, nil)
			return reconciler.Result{}, err
		})).Reconcile(t.Context())
	}()
	<-s.started
	meanwhile()
	close(s.release)
	<-done
	return commands, err
}

func TestCommandsThatTookLongAreDroppedWhereOthersCameMeanwhile(t *testing.T) {
	lock := NewLock(nil, synced)
	empty := NewMethod(nil, lock)
	budgets := func() map[string]int { return map[string]int{"slow": 1} }

	commands, err := simulate(t, lock, &simulation{}, func() {})
	if err != nil || len(commands) != 1 {
		t.Errorf("alone it got %v, %v", commands, err)
	}
	commands, err = simulate(t, lock, &simulation{}, func() {
		// This would never return if the lock were held.
		if _, err := lock.Reconciler(reconcileFunc(func(ctx context.Context) (reconciler.Result, error) {
			got, err := empty.ComputeCommands(ctx, budgets(), candidate("slow", 1))
			if len(got) != 1 {
				t.Errorf("the empty node got %v", got)
			}
			return reconciler.Result{}, err
		})).Reconcile(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err != nil || len(commands) != 0 {
		t.Errorf("with a budget that was used meanwhile it got %v, %v", commands, err)
	}
	commands, err = simulate(t, lock, &simulation{}, func() {
		if got, err := empty.ComputeCommands(t.Context(), map[string]int{}, candidate("slow", 1)); err != nil || len(got) != 0 {
			t.Errorf("without a budget the empty node got %v, %v", got, err)
		}
	})
	if err != nil || len(commands) != 1 {
		t.Errorf("with no command meanwhile it got %v, %v", commands, err)
	}
}

func TestCommandsAreDroppedWhereANodeClaimWasCreatedMeanwhile(t *testing.T) {
	for _, test := range []struct {
		name    string
		created client.Object
		err     error
		want    int
	}{
		{"a NodeClaim for a pod that both schedule", claim(""), nil, 0},
		{"a NodeClaim whose response was lost", claim(""), errors.New("connection reset"), 0},
		{"another object", pod("p", nil), nil, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			lock := NewLock(nil, synced)
			api := lock.Client(interceptor.NewClient(fakeAPI(), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return test.err },
			}))
			commands, err := simulate(t, lock, &simulation{}, func() {
				// This would never return if the lock were held.
				lock.LaunchLocker().Lock()
				defer lock.LaunchLocker().Unlock()
				if err := api.Create(t.Context(), test.created); !errors.Is(err, test.err) {
					t.Error(err)
				}
			})
			if err != nil || len(commands) != test.want {
				t.Errorf("got %v, %v", commands, err)
			}
		})
	}
}

func TestCommandsAreDroppedWhereAReplacementIsForPodsThatNeedNone(t *testing.T) {
	running := pod("p", func(p *corev1.Pod) { p.UID = "p" })
	for _, test := range []struct {
		name string
		pods []client.Object
		want int
	}{
		{"the pods of the node", []client.Object{running}, 1},
		{"pods that were evicted from a node beside it meanwhile", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			commands, err := simulate(t, NewLock(fakeAPI(test.pods...), synced), &simulation{
				replacements: []*disruption.Replacement{{NodeClaim: &scheduling.NodeClaim{Pods: []*corev1.Pod{running}}}},
			}, func() {})
			if err != nil || len(commands) != test.want {
				t.Errorf("got %v, %v", commands, err)
			}
		})
	}
}

func TestTheProvisionerWaitsUntilTheCommandsAreStarted(t *testing.T) {
	for _, test := range []struct {
		name  string
		slow  simulation
		drops bool
		waits bool
	}{
		{"with commands", simulation{}, false, true},
		{"with commands that are dropped", simulation{}, true, false},
		{"after an error", simulation{err: errors.New("no capacity")}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			lock, s := NewLock(nil, synced), test.slow
			s.started, s.release = make(chan struct{}), make(chan struct{})
			close(s.release)
			controller := lock.Reconciler(reconcileFunc(func(ctx context.Context) (reconciler.Result, error) {
				method := s
				if test.drops {
					method.meanwhile = func() { lock.changes.Add(1) }
				}
				_, _ = lock.Decorate(&method).ComputeCommands(ctx, nil)
				if waits := !lock.launches.TryLock(); waits != test.waits {
					t.Errorf("the provisioner waits: %t", waits)
				} else if !waits {
					lock.launches.Unlock()
				}
				return reconciler.Result{}, nil
			}))
			if _, err := controller.Reconcile(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !lock.launches.TryLock() {
				t.Error("the provisioner still waits when the commands are started")
			}
		})
	}
}

func TestAMethodAfterOneWhoseCommandsDoNothingIsComputedWithoutTheLock(t *testing.T) {
	lock := NewLock(nil, synced)
	compute := func(ctx context.Context, meanwhile func()) {
		s := &simulation{started: make(chan struct{}), release: make(chan struct{}), meanwhile: meanwhile}
		close(s.release)
		if commands, err := lock.Decorate(s).ComputeCommands(ctx, nil); err != nil || len(commands) != 1 {
			t.Errorf("got %v, %v", commands, err)
		}
	}
	if _, err := lock.Reconciler(reconcileFunc(func(ctx context.Context) (reconciler.Result, error) {
		compute(ctx, nil)
		compute(ctx, func() {
			if !lock.launches.TryLock() {
				t.Error("the provisioner waits for a simulation")
				return
			}
			lock.launches.Unlock()
		})
		return reconciler.Result{}, nil
	})).Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNoCommandIsComputedWhileANodeClaimHasNoInstance(t *testing.T) {
	s := &simulation{started: make(chan struct{}), release: make(chan struct{})}
	// Nobody releases the simulation: it would not end.
	commands, err := NewLock(nil, func(context.Context) bool { return false }).Decorate(s).ComputeCommands(t.Context(), nil)
	if err != nil || len(commands) != 0 {
		t.Errorf("got %v, %v", commands, err)
	}
}

func TestADroppedReplacementOfAStaticPoolReleasesItsPlace(t *testing.T) {
	for name, change := range map[string]int64{"kept": 0, "dropped": 1} {
		t.Run(name, func(t *testing.T) {
			lock := NewLock(fakeAPI(), synced)
			released := map[string]int64{}
			lock.SetReleaseFunc(func(pool string, count int64) { released[pool] += count })
			claim := &scheduling.NodeClaim{NodeClaimTemplate: scheduling.NodeClaimTemplate{NodePoolName: "static", IsStaticNodeClaim: true}}
			s := &simulation{replacements: []*disruption.Replacement{{NodeClaim: claim}}}
			if _, err := simulate(t, lock, s, func() { lock.changes.Add(change) }); err != nil {
				t.Fatal(err)
			}
			if released["static"] != change {
				t.Errorf("released %v", released)
			}
		})
	}
}

func TestTheLockIsHeldAgainAfterAnErrorOrAPanic(t *testing.T) {
	for name, s := range map[string]*simulation{"error": {err: errors.New("no capacity")}, "panic": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			lock := NewLock(nil, synced)
			if commands, err := simulate(t, lock, s, func() {}); err == nil || commands != nil {
				t.Errorf("got %v, %v", commands, err)
			}
			if !lock.mu.TryLock() || !lock.launches.TryLock() {
				t.Error("the lock is still held")
			}
		})
	}
}

func TestTotalsReachTheMethodThatScoresByThem(t *testing.T) {
	s := &simulation{}
	want := map[string]disruption.NodePoolTotals{"gpu": {}}
	NewLock(nil, synced).Decorate(s).(disruption.NodePoolTotalsSetter).SetNodePoolTotals(want)
	if diff := cmp.Diff(want, s.totals); diff != "" {
		t.Error(diff)
	}
}

func TestEachEmptyNodeHasACommandOfItsOwnWithinTheBudget(t *testing.T) {
	lock := NewLock(nil, synced)
	commands, err := NewMethod(nil, lock).ComputeCommands(t.Context(), map[string]int{"a": 2, "b": 0, "c": 1},
		candidate("a", 1), candidate("a", 3), candidate("a", 2), candidate("b", 9), candidate("c", 1))
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, c := range commands {
		if len(c.Candidates) != 1 || len(c.Replacements) != 0 || c.Decision() != disruption.DeleteDecision {
			t.Errorf("got command %v", c)
		}
		got = append(got, c.Candidates[0].Price)
	}
	// Of pool a the two that save most; of b, whose budget is used up, none.
	if diff := cmp.Diff([]float64{3, 2, 1}, got); diff != "" {
		t.Error(diff)
	}
}
