package collector

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

// Decorate returns what wraps Karpenter's cloud provider: a termination is recorded before it is carried out, where
// that can be written in two seconds.
func (c *Collector) Decorate(inner cloudprovider.CloudProvider) cloudprovider.CloudProvider {
	return &terminationRecorder{inner, c}
}

type terminationRecorder struct {
	cloudprovider.CloudProvider
	collector *Collector
}

// Delete terminates the claim's instance. Karpenter calls it until the instance is gone, and then lets the claim go.
func (d *terminationRecorder) Delete(ctx context.Context, claim *karpv1.NodeClaim) error {
	d.collector.terminating(ctx, claim)
	return d.CloudProvider.Delete(ctx, claim)
}

// terminating records that the instance of a claim is about to be terminated, once for each. A history that cannot be written
// keeps no node.
func (c *Collector) terminating(ctx context.Context, claim *karpv1.NodeClaim) {
	defer c.guard()
	uid := string(claim.UID)
	c.mu.Lock()
	known := c.recorded[uid] || c.types == nil || c.off.Load()
	c.recorded[uid] = true
	c.mu.Unlock()
	if known {
		return
	}
	now, o, region := c.cfg.Clock.Now(), c.observation(claim, nil), claim.Labels[corev1.LabelTopologyRegion]
	c.queue(func(s *recorder.State) {
		c.addPrice(s, region, &o)
		s.Terminating(now, o)
	})
	ctx, cancel := context.WithTimeout(ctx, terminationTimeout)
	defer cancel()
	if err := c.flush(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errPostponed) {
		c.cfg.Log.Error(err, "The termination of a node could not be recorded before it", "nodeclaim", claim.Name)
	}
}

// EventRecorder is a recorder of Kubernetes events that takes in why Karpenter deletes NodeClaims whose objects do not have the reason.
func (c *Collector) EventRecorder(next record.EventRecorder) record.EventRecorder {
	return eventObserver{next, c}
}

type eventObserver struct {
	record.EventRecorder
	collector *Collector
}

// Event implements record.EventRecorder; Karpenter calls no other of its methods. That an instance is terminating is also
// reported of one that Karpenter itself terminates, whose claim is being deleted by then.
func (e eventObserver) Event(about runtime.Object, kind, reason, message string) {
	if claim, is := about.(*karpv1.NodeClaim); is && claim.DeletionTimestamp == nil && history.Reason(reason).Interruption() {
		e.collector.mu.Lock()
		e.collector.interruptions[string(claim.UID)] = history.Reason(reason)
		e.collector.mu.Unlock()
	}
	e.EventRecorder.Event(about, kind, reason, message)
}
