package pullrequest

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// failed notes an error of the forge. What may pass lets the whole Sync rest; what
// the forge refuses for good may be a matter of one pull request, and only the
// second refusal ends the pass.
func (p *pullRequestRun) failed(err error) {
	t := failure.Classify(err)
	p.Metrics.errors.WithLabelValues(p.sync.Name, t.Reason).Inc()
	if !t.Transient {
		p.refused++
	}
	if p.forgeFailure.Reason == "" || t.Transient && !p.forgeFailure.Transient {
		p.forgeFailure = t
	}
	if t.Transient || p.refused > 1 || !p.listed() {
		p.rest(t)
	}
}

// keepFailure keeps the last failure in the status while something could not be published because
// of it, although nothing was tried in this pass.
func (p *pullRequestRun) keepFailure() {
	for _, rec := range p.s.records {
		if rec.post.Failures > 0 {
			p.forgeFailure = p.s.forgeFailure
			return
		}
	}
}

// withoutForge notes that there is no ForgeAccess to work with.
func (p *pullRequestRun) withoutForge(t failure.Failure) {
	p.forgeFailure = t
	p.rest(t)
}

// rest sends the forge no requests for a while.
func (p *pullRequestRun) rest(t failure.Failure) {
	p.now = p.Clock.Now()
	p.s.backoff.Failed(p.now, t.Until)
	p.after = max(p.s.backoff.Until.Sub(p.now), soon)
}

// record writes the status where it has changed, and an event where there is
// a new failure.
func (p *pullRequestRun) record(ctx context.Context) {
	status := p.outcome()
	known := p.s.forgeFailure.Reason
	p.s.forgeFailure = p.forgeFailure
	if p.forgeFailure.Reason != "" && p.forgeFailure.Reason != known {
		p.Recorder.Event(p.sync, corev1.EventTypeWarning, p.forgeFailure.Reason, "Pull requests cannot be planned: "+p.forgeFailure.Message)
	}
	before := p.s.written
	if before == nil {
		before = p.sync.Status.PullRequests
	}
	if equality.Semantic.DeepEqual(before, status) {
		return
	}
	if err := p.patch(ctx, p.sync, status); err != nil {
		// All of it is in memory; the forge must not be read again because of it.
		log(ctx).Info("Cannot record what was published on pull requests; it is tried again", "why", err.Error())
		p.requeueAfter(limits.MinBackoff)
		return
	}
	p.s.written = status
}

// outcome is the status after the pass.
func (p *pullRequestRun) outcome() *v1alpha1.PullRequestsStatus {
	before := p.s.written
	if before == nil {
		before = p.sync.Status.PullRequests
	}
	status := &v1alpha1.PullRequestsStatus{Reason: p.forgeFailure.Reason, Message: sanitize.Text(p.forgeFailure.Message), Items: items(p.s.records)}
	switch {
	case p.listed():
		status.Open = int32(p.open)
		p.Metrics.open.WithLabelValues(p.sync.Name).Set(float64(p.open))
		p.Metrics.outcomes.Begin(p.sync.Name)
	case before != nil:
		status.Open = before.Open
	}
	if before != nil && p.forgeFailure.Transient && before.Reason == status.Reason && status.Reason != failure.RateLimited {
		// The same failure with another text, such as another local port, is nothing new.
		status.Message = before.Message
	}
	return status
}

// listed reports whether this pass has listed what there is at the forge.
func (p *pullRequestRun) listed() bool { return p.suffix != "" }

// patch writes status.pullRequests and nothing else: the other fields are the Git
// loop's. What is to be gone is named, for the copy at hand may be an old one.
func (r *Reconciler) patch(ctx context.Context, sync *v1alpha1.Sync, status *v1alpha1.PullRequestsStatus) error {
	var field any
	if status != nil {
		fields := map[string]any{"reason": nil, "message": nil, "open": status.Open, "items": nil}
		if status.Reason != "" {
			fields["reason"], fields["message"] = status.Reason, status.Message
		}
		if len(status.Items) > 0 {
			fields["items"] = status.Items
		}
		field = fields
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"pullRequests": field}})
	if err != nil {
		return fmt.Errorf("writing the status of Sync %s: %w", sync.Name, err)
	}
	target := &v1alpha1.Sync{}
	target.Namespace, target.Name = sync.Namespace, sync.Name
	if err := r.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, raw)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Sync %s: %w", sync.Name, err)
	}
	return nil
}
