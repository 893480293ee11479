// Package rollout computes the condition RolledOut of Syncs: whether every node is replaced that the applied revision
// has Karpenter replace.
//
// It refuses to write: the controller of Syncs writes the condition with the rest of the status. Which nodes are to be
// replaced is computed by Karpenter's own hashes, since Karpenter marks them minutes after the change. Nodes are read
// only while a roll-out is under way. Start reading at Poller.SetCondition.
package rollout

import (
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// Condition is the type of the condition.
const Condition = "RolledOut"

// The reasons of the condition, beside those of Ready, Progressing and ProgressingWithRetry of Flux, and Suspended.
const (
	// upToDate: no node is to be replaced, as MachinesUpToDate of Cluster API has it.
	upToDate = "UpToDate"
	// rollingOut: nodes are to be replaced, as RollingOut of Cluster API has it.
	rollingOut = "RollingOut"
	// disruptionBlocked: something keeps Karpenter from replacing each of those, as its event of that name.
	disruptionBlocked = "DisruptionBlocked"
	// partlyUnknown: no node is known to be replaced, and not all is known.
	partlyUnknown = "PartlyUnknown"
	// noCluster: there is no Cluster, which names the region of the nodes.
	noCluster = "NoCluster"
	// terminating: the Sync is being deleted, as the condition Drifted has it.
	terminating = "Terminating"
)

// ofNodes reports whether a reason is one that reading the nodes has led to.
func ofNodes(reason string) bool {
	switch reason {
	case upToDate, rollingOut, disruptionBlocked, partlyUnknown, noCluster:
		return true
	}
	return false
}

// result is what was found of the nodes of a Sync. The zero value is that nothing was.
type result struct {
	status          metav1.ConditionStatus
	reason, message string
}

// over reports whether the roll-out has ended.
func (r result) over() bool { return r.status == metav1.ConditionTrue }

// stabilizing is that the roll-out has ended unless a later reading finds otherwise.
var stabilizing = result{metav1.ConditionUnknown, fluxmeta.ProgressingReason, "no node is known to be replaced; nodes are read once more, since Karpenter marks some of them later"}

// ended is that the roll-out has ended.
var ended = result{metav1.ConditionTrue, upToDate, "no node is to be replaced"}

// syncProgress is how far the roll-out of one Sync is.
type syncProgress struct {
	// found is what was read last of the revision that the Sync has applied; own is true where this process has read it,
	// so that Applied has all that was changed since.
	found result
	own   bool
	// clean is when the first of the readings since the last change ended that found no node to be replaced; the zero
	// value where the last one found some.
	clean time.Time
	// reset is true where the condition is of before: of another revision, or of a change that was made since.
	reset bool
	// required is true where nodes have to be read, since when, and how often that was requested.
	required bool
	since    time.Time
	requests int
	// left is how many nodes the last reading found that are to be replaced, and changed when that or found became another.
	left    int
	changed time.Time
	// failed is what the condition has where they could not be; the zero value where they were.
	failed result
}

// Applied takes in what a run of a Sync has done. Where it has changed what nodes are made from, they are read again.
func (p *Poller) Applied(sync *v1alpha1.Sync, results []apply.Result) {
	if p == nil {
		return
	}
	name := client.ObjectKeyFromObject(sync)
	for _, r := range results {
		switch {
		case !r.Change.IsNodeConfiguration():
		case r.Status == apply.Applied:
			if r.Change.Action == plan.Delete {
				p.removedBy(name, r.Change.Key)
			}
			// Drift that was corrected at once has seldom had a node made from it.
			p.require(name, !r.Change.Drift)
		default:
			// The API server may have made what failed, and the next revision may declare what differs: it then has
			// nothing to change, and nodes to be replaced all the same.
			p.invalidate(name)
		}
	}
}

// SetCondition sets the condition of updated, a Sync with a new status, whose status before is that of sync. It has the
// revision that updated has applied: one status has both.
func (p *Poller) SetCondition(sync, updated *v1alpha1.Sync) {
	if p == nil {
		return
	}
	name := client.ObjectKeyFromObject(updated)
	p.mu.Lock()
	defer p.mu.Unlock()
	found, progress := p.next(name, sync, updated)
	p.store(name, progress)
	if found != (result{}) {
		set(updated, found)
	}
}

// next is what the condition of updated becomes, the zero value where it stays, and by then the progress of its roll-out, nil
// where there is none. It changes nothing.
func (p *Poller) next(name types.NamespacedName, sync, updated *v1alpha1.Sync) (found result, progress *syncProgress) {
	var now syncProgress
	if progress = p.syncs[name]; progress != nil {
		now = *progress
	}
	ready := conditions.Get(updated, fluxmeta.ReadyCondition)
	switch {
	case !updated.DeletionTimestamp.IsZero():
		return result{metav1.ConditionUnknown, terminating, "nodes are not read while the Sync is being deleted"}, nil
	case updated.Spec.Suspend:
		return result{metav1.ConditionUnknown, fluxmeta.SuspendedReason, "nodes are not read while the Sync is suspended" + suspension.Details(updated)}, nil
	case ready == nil:
	case ready.Status != metav1.ConditionTrue:
		found = result{ready.Status, ready.Reason, "the Sync is not ready, as its condition Ready has it"}
		if progress != nil {
			now.interrupt()
			progress = &now
		}
	case updated.Status.ObservedGeneration == updated.Generation:
		found = now.of(sync, updated, p.clock.Now())
		progress = &now
	}
	return found, progress
}

// Due reports whether the condition of a Sync is another than its status has. It changes nothing: what is being read for the
// Sync still counts.
func (p *Poller) Due(sync *v1alpha1.Sync) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	found, _ := p.next(client.ObjectKeyFromObject(sync), sync, sync)
	p.mu.Unlock()
	if found == (result{}) {
		return false
	}
	updated := sync.DeepCopy()
	set(updated, found)
	return !equality.Semantic.DeepEqual(sync.Status.Conditions, updated.Status.Conditions)
}

func set(sync *v1alpha1.Sync, r result) {
	message := prefix(sync.Status.LastAppliedRevision) + r.message
	conditions.Set(sync, &metav1.Condition{Type: Condition, Status: r.status, Reason: r.reason, Message: message})
}

// prefix is what a message begins with.
func prefix(revision string) string {
	if revision == "" {
		return "No revision is applied: "
	}
	return "Revision " + sanitize.Text(revision) + ": "
}

// of is what is known of the roll-out of a Sync that is ready; the zero value where the condition has it already.
func (now *syncProgress) of(sync, updated *v1alpha1.Sync, at time.Time) result {
	before, after := sync.Status, updated.Status
	last := conditions.Get(updated, Condition)
	another := last == nil || last.ObservedGeneration != updated.Generation ||
		before.LastAppliedRevision != after.LastAppliedRevision || before.LastAppliedTreeID != after.LastAppliedTreeID
	if another && !now.own {
		now.restart(at)
	}
	switch {
	case now.found != (result{}):
		return now.found
	case !now.reset && last.Status == metav1.ConditionTrue:
		// As another process has found it: what has ended is not read again.
		now.found = ended
		return ended
	case now.failed != (result{}):
		return now.failed
	case !now.reset && ofNodes(last.Reason):
		now.require(at)
		return result{}
	}
	now.require(at)
	return result{metav1.ConditionUnknown, fluxmeta.ProgressingReason, "the nodes are not read yet"}
}

// require has the nodes read.
func (now *syncProgress) require(at time.Time) {
	if !now.required {
		now.required, now.since = true, at
	}
}

// restart drops what was found, and has the nodes read.
func (now *syncProgress) restart(at time.Time) {
	now.requests++
	now.found, now.own, now.clean, now.reset, now.failed, now.required = result{}, false, time.Time{}, true, result{}, false
	now.require(at)
}

// interrupt has the nodes not read.
func (now *syncProgress) interrupt() {
	now.required, now.clean = false, time.Time{}
	if !now.found.over() {
		// The condition becomes that of Ready, whose reason may be one of the nodes as well.
		now.found, now.reset = result{}, true
	}
}
