package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// AWSStatuses are what the AWS target of each Sync reported last, on its way to the
// Cluster's status, which the Cluster watcher writes alone.
type AWSStatuses struct {
	changed chan event.GenericEvent

	mu   sync.Mutex
	last map[syncCluster]v1alpha1.AWSStatus
}

// syncCluster names a Sync and the Cluster whose status it reported.
type syncCluster struct{ sync, cluster string }

func newAWSStatuses() *AWSStatuses {
	return &AWSStatuses{changed: make(chan event.GenericEvent, 1), last: map[syncCluster]v1alpha1.AWSStatus{}}
}

// Report takes over a status and notifies the reconciler.
func (n *AWSStatuses) Report(sync, cluster string, status v1alpha1.AWSStatus) {
	n.mu.Lock()
	n.last[syncCluster{sync, cluster}] = status
	n.mu.Unlock()
	n.notify()
}

func (n *AWSStatuses) notify() {
	select {
	case n.changed <- event.GenericEvent{Object: &v1alpha1.Cluster{}}:
	default: // One is pending, and will find the newest.
	}
}

// RemoveAWSStatus removes what was reported of AWS for a Sync that is gone: by this process, and
// by one before it, which only the Cluster's status records. The Cluster's label names its Sync.
func (s *Supervisor) RemoveAWSStatus(ctx context.Context, sync string) error {
	now, err := ReadDesired(ctx, s.Live)
	if err != nil {
		return err
	}
	if c := now.Cluster; c != nil && c.Labels[v1alpha1.SyncLabel] == sync {
		s.AWS.Report(sync, c.Name, v1alpha1.AWSStatus{})
	}
	s.AWS.drop(sync)
	return nil
}

// drop empties the status of a Sync that is gone: nothing keeps what it reported last true.
func (n *AWSStatuses) drop(sync string) {
	n.mu.Lock()
	for who := range n.last {
		if who.sync == sync {
			n.last[who] = v1alpha1.AWSStatus{}
		}
	}
	n.mu.Unlock()
	n.notify()
}

// newest is the newest that any Sync reported of a Cluster; false where none did. A Sync
// that declares nothing in AWS does not hide what another one found.
func (n *AWSStatuses) newest(cluster string) (v1alpha1.AWSStatus, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var newest v1alpha1.AWSStatus
	reported := false
	for who, s := range n.last {
		if who.cluster != cluster {
			continue
		}
		if reported = true; newest.ObservedAt.Before(&s.ObservedAt) || isEmpty(newest) {
			newest = s
		}
	}
	return *newest.DeepCopy(), reported
}

// isEmpty reports whether a status states nothing. One that has only what is unknown
// states something, although AWS was not read.
func isEmpty(s v1alpha1.AWSStatus) bool { return s.ObservedAt.IsZero() && len(s.Unknown) == 0 }

// setOn puts the status into the status of the Cluster that they are of.
func (n *AWSStatuses) setOn(c *v1alpha1.Cluster) {
	status, reported := n.newest(c.Name)
	if !reported {
		return
	}
	if isEmpty(status) {
		c.Status.AWS = nil
		conditions.Delete(c, "AWSInSync")
		return
	}
	c.Status.AWS = &status
	// The API server keeps whole seconds.
	status.ObservedAt = status.ObservedAt.Rfc3339Copy()
	for i, u := range status.Unknown {
		status.Unknown[i].Since = u.Since.Rfc3339Copy()
	}
	condition := awsCondition(&status)
	conditions.Set(c, &condition)
}

// maxListed is how many things each list of the status holds at most.
const maxListed = 50

// awsCondition sums the status up.
func awsCondition(s *v1alpha1.AWSStatus) metav1.Condition {
	c := metav1.Condition{Type: "AWSInSync", Status: metav1.ConditionTrue, Reason: "InSync", Message: "all declared resources are in sync"}
	if len(s.Unknown) > 0 {
		first := s.Unknown[0]
		c.Status, c.Reason = metav1.ConditionUnknown, "PartlyUnknown"
		c.Message = atLeast(len(s.Unknown)) + " not readable since " + first.Since.UTC().Format("2006-01-02 15:04:05 MST") + ", the first: " + first.Resource + ": " + first.Reason
	}
	if len(s.Differences) > 0 {
		first := s.Differences[0]
		c.Status, c.Reason = metav1.ConditionFalse, "Drifted"
		c.Message = atLeast(len(s.Differences)) + " drifted"
		if len(s.Unknown) > 0 {
			c.Message += ", " + atLeast(len(s.Unknown)) + " unknown"
		}
		c.Message += ", the first: " + first.Resource + ": " + first.Message
	}
	return c
}

// atLeast counts resources in a list that may have been cut.
func atLeast(n int) string {
	switch {
	case n >= maxListed:
		return fmt.Sprintf("at least %d resources", n)
	case n == 1:
		return "1 resource"
	}
	return fmt.Sprintf("%d resources", n)
}
