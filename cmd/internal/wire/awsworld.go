package wire

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/aws"
)

// awsWorld is the AWS half of a Sync, fenced like the rest of our writes.
func (a *attempt) awsWorld(sync *v1alpha1.Sync) (*aws.World, error) {
	return aws.New(aws.Config{
		AWS: engine.LoadAWS, REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace,
		Fresh: a.lease.fresh, Tell: a.aws.tell,
		Log: a.cfg.Logger.WithName("aws").WithValues("sync", sync.Name),
	})
}

// watchFunc reports drift until its context ends.
type watchFunc func(ctx context.Context, drifted func([]state.Key)) error

// together watches several worlds, and ends when one of them does.
func together(all ...watchFunc) watchFunc {
	return func(ctx context.Context, drifted func([]state.Key)) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan error, len(all))
		for _, watch := range all {
			go func() { ended <- watch(ctx, drifted) }()
		}
		var errs []error
		for range all {
			err := <-ended
			cancel()
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// awsNews is what the AWS worlds told last, on its way to the Cluster's status,
// which the Cluster watcher writes alone.
type awsNews struct {
	wake chan event.GenericEvent

	mu   sync.Mutex
	last *aws.Status
}

func newAWSNews() *awsNews { return &awsNews{wake: make(chan event.GenericEvent, 1)} }

// tell takes over a status and wakes the watcher.
func (n *awsNews) tell(s aws.Status) {
	n.mu.Lock()
	n.last = &s
	n.mu.Unlock()
	select {
	case n.wake <- event.GenericEvent{Object: &v1alpha1.Cluster{}}:
	default: // It is awake, and will find the newest.
	}
}

// into puts the news into the status of the Cluster that they are of.
func (n *awsNews) into(c *v1alpha1.Cluster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil || n.last.Cluster != c.Name {
		return
	}
	if n.last.AWS.ObservedAt.IsZero() {
		c.Status.AWS = nil
		meta.RemoveStatusCondition(&c.Status.Conditions, "AWSInSync")
		return
	}
	c.Status.AWS = n.last.AWS.DeepCopy()
	// The API server keeps whole seconds.
	c.Status.AWS.ObservedAt = c.Status.AWS.ObservedAt.Rfc3339Copy()
	for i, u := range c.Status.AWS.Unknown {
		c.Status.AWS.Unknown[i].Since = u.Since.Rfc3339Copy()
	}
	condition := awsCondition(c.Status.AWS)
	condition.ObservedGeneration = c.Generation
	meta.SetStatusCondition(&c.Status.Conditions, condition)
}

// awsCondition sums the status up.
func awsCondition(s *v1alpha1.AWSStatus) metav1.Condition {
	c := metav1.Condition{Type: "AWSInSync", Status: metav1.ConditionTrue, Reason: "InSync", Message: "AWS holds what is declared"}
	if len(s.Unknown) > 0 {
		first := s.Unknown[0]
		c.Status, c.Reason = metav1.ConditionUnknown, "PartlyUnknown"
		c.Message = count(len(s.Unknown), "resource") + " unknown since " + first.Since.UTC().Format("2006-01-02 15:04:05 MST") + ", the first: " + first.Resource + ": " + first.Reason
	}
	if len(s.Differences) > 0 {
		first := s.Differences[0]
		c.Status, c.Reason = metav1.ConditionFalse, "Different"
		c.Message = count(len(s.Differences), "resource") + " not as declared, the first: " + first.Resource + ": " + first.Message
	}
	return c
}
