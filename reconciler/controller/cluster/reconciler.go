package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// EngineRunning is the reason of the Cluster's condition Ready while the engine
// runs.
const EngineRunning = "EngineRunning"

// How long changed settings must be stable before the process follows them: a burst
// of edits is one restart. Where no engine runs there is less to lose.
const (
	stableRunning = 10 * time.Second
	stableIdle    = 2 * time.Second
	// blockedRetry is how often the gates of a blocked engine are tried again.
	blockedRetry = 30 * time.Second
	// leaseRetryInterval is how often it is checked whether another Karpenter still leads that
	// holds the engine: from its end on nobody provisions. It costs no request to AWS.
	leaseRetryInterval = 3 * time.Second
)

// Blocked is why the engine does not run although it is enabled.
type Blocked struct{ Reason, Message string }

// BlockedBy is a Blocked because of an error.
func BlockedBy(reason string, err error) *Blocked {
	return &Blocked{Reason: reason, Message: err.Error()}
}

// reconciler follows the Cluster object: it writes its status, and has the process started
// anew when other settings, or an open gate, require that.
type reconciler struct {
	*Supervisor
	reader  client.Reader
	writer  client.Client
	elected <-chan struct{}

	changed   string
	changedAt time.Time
	triedAt   time.Time
}

// AddTo puts the controller of Clusters on a manager.
func (s *Supervisor) AddTo(mgr manager.Manager) error {
	w := &reconciler{Supervisor: s, reader: mgr.GetAPIReader(), writer: mgr.GetClient(), elected: mgr.Elected(), triedAt: s.started}
	led := make(chan event.GenericEvent, 1)
	// Whoever begins to lead reconciles again at once: settings may have changed
	// while it stood by, and the status is now its own to write.
	err := mgr.Add(onceElected(mgr.Elected(), func() { led <- event.GenericEvent{Object: &v1alpha1.Cluster{}} }))
	if err != nil {
		return fmt.Errorf("registering the check of the Cluster on leadership: %w", err)
	}
	everywhere := false
	err = ctrl.NewControllerManagedBy(mgr).
		Named("poolwright.cluster").
		For(&v1alpha1.Cluster{}).
		WatchesRawSource(source.Channel(led, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(s.AWS.changed, &handler.EnqueueRequestForObject{})).
		// A standby follows the settings too, so that it leads with the right ones.
		WithOptions(controller.Options{NeedLeaderElection: &everywhere}).
		Complete(w)
	if err != nil {
		return fmt.Errorf("registering the Cluster watcher: %w", err)
	}
	return nil
}

// onceElected does something when elected is closed. A manager starts what only the
// leader runs first and closes elected last: whoever is notified in between reports
// nothing, as a standby does, and would not be notified again.
func onceElected(elected <-chan struct{}, do func()) manager.RunnableFunc {
	return func(ctx context.Context) error {
		select {
		case <-elected:
			do()
		case <-ctx.Done():
		}
		return nil
	}
}

// Reconcile compares the settings that run with those that are declared. A status that cannot
// be written holds nothing up: whoever may create Clusters could hold the engine with one.
func (w *reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now, err := ReadDesired(ctx, w.reader)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = w.report(ctx, now)
	result := w.follow(ctx, now)
	if err != nil && result.RequeueAfter > 0 {
		// The wait after a returned error grows up to many minutes, in place of this one.
		w.Log.Error(err, "Writing the status of Clusters failed")
		return result, nil
	}
	return result, err
}

// follow requests a restart where settings or gates do.
func (w *reconciler) follow(ctx context.Context, now Desired) ctrl.Result {
	switch {
	case now.Invalid:
		// The last good settings go on.
		return ctrl.Result{}
	case now.hash() != w.Desired.hash():
		return w.restartWhenStable(now)
	case w.blocked != nil:
		return w.retry(ctx)
	}
	w.changed = ""
	if w.gateOff != nil {
		return w.retryGate(ctx)
	}
	return ctrl.Result{}
}

// restartWhenStable waits until the new settings have been stable, then requests a
// restart.
func (w *reconciler) restartWhenStable(now Desired) ctrl.Result {
	if hash := now.hash(); hash != w.changed {
		w.changed, w.changedAt = hash, time.Now()
	}
	rest := stableIdle
	if w.Running() {
		rest = stableRunning
	}
	if left := rest - time.Since(w.changedAt); left > 0 {
		return ctrl.Result{RequeueAfter: left}
	}
	w.Log.Info("Restarting to follow the Cluster object", "engine", now.EngineOn)
	w.Restart()
	return ctrl.Result{}
}

// retry tries the gates of a blocked engine again, and restarts when they open.
func (w *reconciler) retry(ctx context.Context) ctrl.Result {
	leads := w.blocked.Reason == gate.OtherKarpenterRunning
	left := blockedRetry - time.Since(w.triedAt)
	if left > 0 && !leads {
		return ctrl.Result{RequeueAfter: left}
	}
	gates, err := w.Gates(ctx)
	if err == nil && left > 0 && gates.CheckOthers(ctx) != nil {
		return ctrl.Result{RequeueAfter: min(left, leaseRetryInterval)}
	}
	w.triedAt = time.Now()
	if err != nil {
		w.blocked = BlockedBy("AWSUnavailable", err)
		return ctrl.Result{RequeueAfter: blockedRetry}
	}
	if blocked := gates.Blocking(ctx); blocked != nil {
		w.blocked = blocked
		return ctrl.Result{RequeueAfter: leaseRetryInterval}
	}
	w.Log.Info("Restarting: the gates that blocked the engine are open")
	w.Restart()
	return ctrl.Result{}
}

// report writes the conditions of the Cluster that decides and of the others, each also where
// another cannot be written, as the leader only.
func (w *reconciler) report(ctx context.Context, now Desired) error {
	select {
	case <-w.elected:
	default:
		return nil
	}
	if now.Cluster == nil {
		return nil
	}
	status, reason, message := metav1.ConditionTrue, EngineRunning, "Karpenter runs inside the controller"
	var blocked *Blocked
	switch {
	case now.Invalid:
		status, reason, message = metav1.ConditionFalse, now.Reason, now.Message
	case now.hash() != w.Desired.hash():
		// Also where no engine is declared: until the next life this one's runs, and whoever
		// hands over to another Karpenter waits for its end.
		status, reason, message = metav1.ConditionFalse, "Restarting", "The controller restarts to follow the changed settings"
	case !now.EngineOn:
		reason, message = now.Reason, now.Message
	case w.blocked != nil:
		blocked = w.blocked
		status, reason, message = metav1.ConditionFalse, blocked.Reason, blocked.Message
	case w.gateOff != nil:
		message += ", but " + w.gateOff.Message
	}
	engine := engineConditions(status, reason, message, blocked)
	if w.gateOff != nil && reason == EngineRunning {
		engine[1].Reason, engine[1].Message = w.gateOff.Reason, w.gateOff.Message
	}
	errs := []error{w.write(ctx, now.Cluster, engine)}
	for i, c := range now.Others {
		next := "this one takes over"
		if i > 0 {
			next = "Cluster " + now.Others[0].Name + " takes over"
		}
		ignored := fmt.Sprintf("Ignored: Cluster %[1]s is older. The engine and AWS use Cluster %[1]s. Once it is deleted, %[2]s. "+
			"After a rename in Git, the deletion of %[1]s may wait for a confirmation, which its Sync's Ready condition has", now.Cluster.Name, next)
		errs = append(errs, w.write(ctx, &c, engineConditions(metav1.ConditionFalse, "SeveralClusters", ignored, nil)))
	}
	return errors.Join(errs...)
}

// engineConditions are Ready, as given, and EngineBlocked, which is true while something blocks
// the engine.
func engineConditions(status metav1.ConditionStatus, reason, message string, blocked *Blocked) []metav1.Condition {
	is := metav1.Condition{Type: "EngineBlocked", Status: metav1.ConditionFalse, Reason: "NotBlocked", Message: "No safety gate blocks the engine"}
	if blocked != nil {
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, blocked.Reason, blocked.Message
	}
	return []metav1.Condition{{Type: fluxmeta.ReadyCondition, Status: status, Reason: reason, Message: message}, is}
}

// write gives a Cluster the conditions on the engine, and what was found in AWS, where its status differs.
func (w *reconciler) write(ctx context.Context, c *v1alpha1.Cluster, engine []metav1.Condition) error {
	before := c.DeepCopy()
	for _, condition := range engine {
		condition.Message = sanitize.Text(condition.Message)
		conditions.Set(c, &condition)
	}
	w.AWS.setOn(c)
	c.Status.ObservedGeneration = c.Generation
	if equality.Semantic.DeepEqual(before.Status, c.Status) {
		return nil
	}
	if err := w.writer.Status().Patch(ctx, c, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Cluster %s: %w", c.Name, err)
	}
	return nil
}

// Ready is what the controller reports of the engine: the live Cluster's condition
// Ready, with the reason EngineRunning, why there is none, or the gate that holds it. It is
// nil while there is no Cluster, and while nothing was reported of its newest spec.
func Ready(ctx context.Context, reader client.Reader) (*metav1.Condition, error) {
	now, err := ReadDesired(ctx, reader)
	if err != nil || now.Cluster == nil {
		return nil, err
	}
	ready := conditions.Get(now.Cluster, fluxmeta.ReadyCondition)
	if ready == nil || ready.ObservedGeneration != now.Cluster.Generation {
		return nil, nil
	}
	return ready, nil
}
