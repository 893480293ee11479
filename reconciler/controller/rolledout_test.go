package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/rollout"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// rolling is a stage whose Sync has the pool of one node, and reads whether that is to be replaced.
type rolling struct {
	*stage
	notified chan types.NamespacedName
	// drifted is what is to be replaced, writes how often the status was written, reads how often what runs was read.
	drifted chan []provision.Node
	writes  int
	reads   atomic.Int32
	live    []client.Object
	resign  func()
}

func newRolling(t *testing.T) *rolling {
	t.Helper()
	r := &rolling{stage: newStage(t, nil), notified: make(chan types.NamespacedName), drifted: make(chan []provision.Node), live: forecasttest.Live(t)}
	pool, _ := r.live[2].(*karpv1.NodePool)
	pool.Labels = map[string]string{v1alpha1.SyncLabel: stageName.Name}
	r.lead()
	t.Cleanup(func() { r.resign() })
	r.intercept(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, api client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		r.writes++
		return api.SubResource(sub).Patch(ctx, object, patch, opts...)
	}})
	return r
}

// restart has another process lead, which knows nothing but what the API server has.
func (r *rolling) restart() {
	r.Helper()
	r.resign()
	r.stage.restart()
	r.lead()
}

// lead begins to read nodes.
func (r *rolling) lead() {
	r.Helper()
	cluster, _ := r.live[0].(*v1alpha1.Cluster)
	r.r.RollOut = rollout.NewPoller(rollout.Config{
		Cluster: func(context.Context) (*v1alpha1.Cluster, error) {
			r.reads.Add(1)
			return cluster, nil
		},
		Snapshot: &forecasting.SnapshotReader{Reader: reconcilertest.InstalledClient(r.T, r.live...)},
		Drifted: func(ctx context.Context, _ v1alpha1.ClusterSpec, _ provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
			select {
			case nodes := <-r.drifted:
				return nodes, nil, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		},
		LabelValue: func(sync string) string { return sync }, Clock: r.clock, Log: logr.Discard(),
	})
	mgr := &started{ended: make(chan error)}
	mgr.ctx, mgr.cancel = context.WithCancel(r.Context())
	notify := func(name types.NamespacedName) {
		select {
		case r.notified <- name:
		case <-mgr.ctx.Done():
		}
	}
	if err := r.r.RollOut.AddTo(mgr, notify); err != nil {
		r.Fatal(err)
	}
	r.resign = func() {
		mgr.cancel()
		if err := <-mgr.ended; err != nil {
			r.Error(err)
		}
	}
}

// started is a manager that starts what is added to it at once.
type started struct {
	manager.Manager
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan error
}

func (s *started) Add(r manager.Runnable) error {
	go func() { s.ended <- r.Start(s.ctx) }()
	return nil
}

// read has the nodes read, and reconciles as the result requests it.
func (r *rolling) read(nodes ...provision.Node) {
	r.Helper()
	deadline := time.After(time.Minute)
	for given := false; ; {
		drifted := r.drifted
		if given {
			drifted = nil
		}
		select {
		case drifted <- nodes:
			given = true
		case <-r.notified:
			r.reconcile()
			return
		case <-deadline:
			r.Fatal("no result of the nodes requests a reconciliation")
		case <-time.After(time.Millisecond):
			if !given && r.clock.HasWaiters() {
				r.clock.Step(time.Second)
			}
		}
	}
}

// expectWrites fails unless the status was written so often since the last call.
func (r *rolling) expectWrites(want int) {
	r.Helper()
	if r.writes != want {
		r.Errorf("the status was written %d times, want %d", r.writes, want)
	}
	r.writes = 0
}

func TestTheEndOfARollOutIsACondition(t *testing.T) {
	r := newRolling(t)
	r.commit("kubernetes/np-gpu=1")
	r.reconcile()
	r.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	r.expectCondition("RolledOut", metav1.ConditionUnknown, "Progressing")
	before, comparisons := r.sync().Status, r.cluster.fullComparisons
	r.writes = 0
	r.read(provision.Node{Pool: "gpu", Name: "node-1", Reason: "NodePoolDrifted"})
	r.expectCondition("RolledOut", metav1.ConditionFalse, "RollingOut")
	r.expectWrites(1)
	r.read()
	if got := r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate"); got != "Revision main@sha1:11: no node is to be replaced" {
		t.Errorf("message %q", got)
	}
	r.expectWrites(1)
	if r.sync().Status.LastAppliedRevision != before.LastAppliedRevision || r.cluster.fullComparisons != comparisons {
		t.Error("the end of a roll-out costs more than the write of a condition")
	}
	for range 3 {
		r.later()
	}
	r.expectWrites(0)
	// Another leader reads nothing of a roll-out that is over.
	r.restart()
	reads := r.reads.Load()
	for range 3 {
		r.later()
	}
	r.expectWrites(0)
	if r.reads.Load() != reads {
		t.Error("nodes are read though the roll-out is over")
	}
	// It does not know what was found before, so that each newer revision is read.
	r.commit("kubernetes/np-gpu=1", "kubernetes/map=1")
	r.later()
	r.expectCondition("RolledOut", metav1.ConditionUnknown, "Progressing")
	r.read()
	r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate")
}

func TestAnotherLeaderGoesOnWithARollOut(t *testing.T) {
	r := newRolling(t)
	r.commit("kubernetes/np-gpu=1")
	r.reconcile()
	r.read(provision.Node{Pool: "gpu", Name: "node-1", Reason: "NodePoolDrifted"})
	r.restart()
	r.writes = 0
	r.later()
	r.expectCondition("RolledOut", metav1.ConditionFalse, "RollingOut")
	r.expectWrites(0)
	r.read()
	r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate")
	// One that comes before the nodes were read reads them.
	r.commit("kubernetes/np-gpu=2")
	r.later()
	r.expectCondition("RolledOut", metav1.ConditionUnknown, "Progressing")
	r.restart()
	r.later()
	r.expectCondition("RolledOut", metav1.ConditionUnknown, "Progressing")
	r.read()
	r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate")
}

func TestANewRevisionIsNotRolledOutByTheNodesOfTheLast(t *testing.T) {
	r := newRolling(t)
	r.commit("kubernetes/np-gpu=1")
	r.reconcile()
	r.read()
	r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate")
	r.commit("kubernetes/np-gpu=2")
	r.writes = 0
	r.later()
	if got := r.expectCondition("RolledOut", metav1.ConditionUnknown, "Progressing"); got != "Revision main@sha1:111: the nodes are not read yet" {
		t.Errorf("message %q", got)
	}
	r.expectWrites(1)
	r.read()
	r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate")
	r.writes = 0
	r.commit("kubernetes/np-gpu=2", "kubernetes/map=1")
	r.later()
	if got := r.expectCondition("RolledOut", metav1.ConditionTrue, "UpToDate"); got != "Revision main@sha1:1111: no node is to be replaced" {
		t.Errorf("message %q", got)
	}
	r.expectWrites(1)
	r.nodes = 14
	r.edit(func(sync *v1alpha1.Sync) { sync.Spec.Guard.MaxNodesReplaced = new(int32(5)) })
	r.commit("kubernetes/np-gpu=3")
	r.later()
	r.expectCondition("RolledOut", metav1.ConditionFalse, "NodeReplacementHeld")
}
