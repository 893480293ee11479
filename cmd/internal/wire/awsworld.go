package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
)

// awsWorld is the AWS half of a Sync, fenced like the rest of our writes.
func (a *attempt) awsWorld(sync *v1alpha1.Sync, said *admission.Refusals) (*aws.World, error) {
	return aws.New(aws.Config{
		AWS: engine.LoadAWS, REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace,
		Begin: a.fence.Begin, Check: said.Of,
		Tell: func(s aws.Status) { a.aws.tell(sync.Name, s) },
		Live: LiveCluster(a.direct),
		Log:  a.cfg.Logger.WithName("aws").WithValues("sync", sync.Name),
	})
}

// LiveCluster returns a function that reads which Cluster decides and what its status shows of
// AWS, for aws.Config.
func LiveCluster(reader client.Reader) func(ctx context.Context) (aws.Status, error) {
	return func(ctx context.Context) (aws.Status, error) {
		all, err := liveClusters(ctx, reader)
		if err != nil || len(all) == 0 {
			return aws.Status{}, err
		}
		out := aws.Status{Cluster: all[0].Name}
		if told := all[0].Status.AWS; told != nil {
			out.AWS = *told
		}
		return out, nil
	}
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

// awsNews is what the AWS world of each Sync told last, on its way to the
// Cluster's status, which the Cluster watcher writes alone.
type awsNews struct {
	wake chan event.GenericEvent

	mu   sync.Mutex
	last map[syncCluster]v1alpha1.AWSStatus
}

// syncCluster names a Sync and the Cluster whose status it reported.
type syncCluster struct{ sync, cluster string }

func newAWSNews() *awsNews {
	return &awsNews{wake: make(chan event.GenericEvent, 1), last: map[syncCluster]v1alpha1.AWSStatus{}}
}

// tell takes over a status and wakes the watcher.
func (n *awsNews) tell(sync string, s aws.Status) {
	n.mu.Lock()
	n.last[syncCluster{sync, s.Cluster}] = s.AWS
	n.mu.Unlock()
	n.rouse()
}

func (n *awsNews) rouse() {
	select {
	case n.wake <- event.GenericEvent{Object: &v1alpha1.Cluster{}}:
	default: // It is awake, and will find the newest.
	}
}

// disown makes what was told of AWS for a Sync that is gone nobody's word: in this life,
// and in one before it, of which only the Cluster's status knows. The Cluster's label
// says whose it is.
func (a *attempt) disown(ctx context.Context, sync string) error {
	now, err := readStance(ctx, a.direct)
	if err != nil {
		return err
	}
	if c := now.cluster; c != nil && c.Labels[v1alpha1.SyncLabel] == sync {
		a.aws.tell(sync, aws.Status{Cluster: c.Name})
	}
	a.aws.drop(sync)
	return nil
}

// drop makes the news of a Sync that is gone empty ones: what it told last is
// nobody's to keep true.
func (n *awsNews) drop(sync string) {
	n.mu.Lock()
	for who := range n.last {
		if who.sync == sync {
			n.last[who] = v1alpha1.AWSStatus{}
		}
	}
	n.mu.Unlock()
	n.rouse()
}

// of is the newest that any Sync told of a Cluster; false where none did. A Sync
// that asks AWS for nothing does not hide what another one found.
func (n *awsNews) of(cluster string) (v1alpha1.AWSStatus, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var newest v1alpha1.AWSStatus
	told := false
	for who, s := range n.last {
		if who.cluster != cluster {
			continue
		}
		if told = true; newest.ObservedAt.Before(&s.ObservedAt) || silent(newest) {
			newest = s
		}
	}
	return *newest.DeepCopy(), told
}

// silent reports whether a status tells nothing. One that knows only what it does
// not know tells something, although AWS was not asked.
func silent(s v1alpha1.AWSStatus) bool { return s.ObservedAt.IsZero() && len(s.Unknown) == 0 }

// into puts the news into the status of the Cluster that they are of.
func (n *awsNews) into(c *v1alpha1.Cluster) {
	news, told := n.of(c.Name)
	if !told {
		return
	}
	if silent(news) {
		c.Status.AWS = nil
		meta.RemoveStatusCondition(&c.Status.Conditions, "AWSInSync")
		return
	}
	c.Status.AWS = &news
	// The API server keeps whole seconds.
	news.ObservedAt = news.ObservedAt.Rfc3339Copy()
	for i, u := range news.Unknown {
		news.Unknown[i].Since = u.Since.Rfc3339Copy()
	}
	condition := awsCondition(&news)
	condition.ObservedGeneration = c.Generation
	meta.SetStatusCondition(&c.Status.Conditions, condition)
}

// mostTold is how many things each list of the status holds at most.
const mostTold = 50

// awsCondition sums the status up.
func awsCondition(s *v1alpha1.AWSStatus) metav1.Condition {
	c := metav1.Condition{Type: "AWSInSync", Status: metav1.ConditionTrue, Reason: "InSync", Message: "AWS holds what is declared"}
	if len(s.Unknown) > 0 {
		first := s.Unknown[0]
		c.Status, c.Reason = metav1.ConditionUnknown, "PartlyUnknown"
		c.Message = atLeast(len(s.Unknown)) + " unknown since " + first.Since.UTC().Format("2006-01-02 15:04:05 MST") + ", the first: " + first.Resource + ": " + first.Reason
	}
	if len(s.Differences) > 0 {
		first := s.Differences[0]
		c.Status, c.Reason = metav1.ConditionFalse, "Different"
		c.Message = atLeast(len(s.Differences)) + " not as declared"
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
	case n >= mostTold:
		return fmt.Sprintf("at least %d resources", n)
	case n == 1:
		return "1 resource"
	}
	return fmt.Sprintf("%d resources", n)
}
