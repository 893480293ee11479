// Package suspension has a Sync stop by spec.suspend, with annotations for why and until when. A suspension that has an end is
// ended by the controller in one write, so that spec.suspend alone decides whether a Sync runs, for every reader and every release.
//
// It refuses to end a suspension without an end, or with one that is no time. Start reading at Start.
package suspension

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Start is the change that suspends a Sync, for the reason and until the time of this suspension and no other. With an empty reason it
// has none, with the zero time it does not end by itself. The time is recorded to the second.
func Start(sync *v1alpha1.Sync, reason string, until time.Time) {
	End(sync)
	sync.Spec.Suspend = true
	if reason != "" {
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.SuspendReasonAnnotation, reason)
	}
	if !until.IsZero() {
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.SuspendUntilAnnotation, until.UTC().Format(time.RFC3339))
	}
}

// End is the change that ends a suspension.
func End(sync *v1alpha1.Sync) {
	sync.Spec.Suspend = false
	delete(sync.Annotations, v1alpha1.SuspendReasonAnnotation)
	RemoveUntil(sync)
}

// RemoveUntil removes the end of a suspension, and reports whether there was one. A Sync that is not suspended has none: it would end
// a later suspension at once that somebody begins without one, such as with kubectl.
func RemoveUntil(sync *v1alpha1.Sync) bool {
	_, found := sync.Annotations[v1alpha1.SuspendUntilAnnotation]
	delete(sync.Annotations, v1alpha1.SuspendUntilAnnotation)
	return found
}

// Reason is why a person suspended the Sync, without what a terminal would interpret; empty where it is not suspended, or nobody
// named a reason.
func Reason(sync *v1alpha1.Sync) string {
	if !sync.Spec.Suspend {
		return ""
	}
	return sanitize.Text(sync.Annotations[v1alpha1.SuspendReasonAnnotation])
}

// Until is when the suspension ends by itself; zero where it does not, or the Sync is not suspended.
func Until(sync *v1alpha1.Sync) time.Time {
	if !sync.Spec.Suspend {
		return time.Time{}
	}
	until, err := time.Parse(time.RFC3339, sync.Annotations[v1alpha1.SuspendUntilAnnotation])
	if err != nil {
		return time.Time{}
	}
	return until
}

// Details are what follows "suspended" in a sentence: until when, and why, such as " until 2026-11-28T18:00:00Z: EKS is upgraded";
// empty where neither is recorded. An end that is no time is reported, since the suspension does not end by it.
func Details(sync *v1alpha1.Sync) string {
	until, given := Until(sync), sync.Annotations[v1alpha1.SuspendUntilAnnotation]
	details := Text(&metav1.Time{Time: until}, Reason(sync))
	if sync.Spec.Suspend && until.IsZero() && given != "" {
		details = fmt.Sprintf(" without an end (%s is no time such as 2026-11-28T18:00:00Z: %s)", v1alpha1.SuspendUntilAnnotation, sanitize.Text(given)) + details
	}
	return details
}

// Text is what follows "suspended" in a sentence, of an end and a reason; both may be zero.
func Text(until *metav1.Time, reason string) string {
	out := ""
	if !until.IsZero() {
		out = " until " + until.UTC().Format(time.RFC3339)
	}
	if reason != "" {
		out += ": " + reason
	}
	return out
}

// ErrSuspended is the error of a suspension that would end another one earlier, or remove its reason.
var ErrSuspended = errors.New("it is suspended already")

// Suspend writes that a Sync is suspended, as Start has it. Where it is suspended already, until later or for another reason, that is
// ErrSuspended without overwrite. A Sync that has changed since it was read, such as by the end of a suspension, is read again.
func Suspend(ctx context.Context, kube client.Client, sync *v1alpha1.Sync, reason string, until time.Time, overwrite bool) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !overwrite && overwrites(sync, reason, until) {
			return fmt.Errorf("%w%s", ErrSuspended, Details(sync))
		}
		before := sync.DeepCopy()
		Start(sync, reason, until)
		err := kube.Patch(ctx, sync, locked(before))
		if !apierrors.IsConflict(err) {
			return err
		}
		var live v1alpha1.Sync
		if gone := kube.Get(ctx, client.ObjectKeyFromObject(sync), &live); gone != nil {
			return gone
		}
		live.DeepCopyInto(sync)
		return err
	})
	if err != nil {
		return fmt.Errorf("suspending Sync %s: %w", sync.Name, err)
	}
	return nil
}

// overwrites reports whether a suspension would end that of the Sync earlier, or remove its reason.
func overwrites(sync *v1alpha1.Sync, reason string, until time.Time) bool {
	if !sync.Spec.Suspend {
		return false
	}
	before, present := Until(sync), sync.Annotations[v1alpha1.SuspendReasonAnnotation]
	return !until.IsZero() && (before.IsZero() || until.Before(before)) || present != "" && present != reason
}

// locked is the patch of what changes after before. It has a Conflict where the Sync has changed otherwise, and keeps the fields that
// only a later release has.
func locked(before *v1alpha1.Sync) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// Message is for the person who has suspended a Sync, and has how that ends.
func Message(sync *v1alpha1.Sync) string {
	if sync.DeletionTimestamp != nil {
		return fmt.Sprintf("Sync %s is suspended; it is being deleted, and leaves what is not deleted yet", sync.Name)
	}
	return fmt.Sprintf("Sync %s is suspended%s; resume it with: poolwright resume %s", sync.Name, Details(sync), sync.Name)
}

// Remaining is how long the suspension lasts, as the delay of a result; 0 where it does not end by itself.
func Remaining(sync *v1alpha1.Sync, now time.Time) time.Duration {
	until := Until(sync)
	if until.IsZero() {
		return 0
	}
	return max(until.Sub(now), time.Millisecond)
}

// Over reports whether the time of the suspension is over.
func Over(sync *v1alpha1.Sync, now time.Time) bool {
	until := Until(sync)
	return !until.IsZero() && !now.Before(until)
}

// reasonResumed is the reason of the event on a suspension that has ended by itself, as of a Job.
const reasonResumed = "Resumed"

// Resume writes that a suspension whose time is over has ended, with an event. The write has a Conflict where the Sync has changed since
// it was read, such as by somebody who suspended it for longer.
func Resume(ctx context.Context, kube client.Client, recorder record.EventRecorder, sync *v1alpha1.Sync) error {
	details, before := Details(sync), sync.DeepCopy()
	End(sync)
	if err := kube.Patch(ctx, sync, locked(before)); err != nil {
		return fmt.Errorf("ending the suspension of Sync %s: %w", sync.Name, err)
	}
	recorder.Eventf(sync, corev1.EventTypeNormal, reasonResumed, "The Sync was suspended%s", details)
	return nil
}
