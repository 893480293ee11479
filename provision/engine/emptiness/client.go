package emptiness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	disruptionutils "sigs.k8s.io/karpenter/pkg/utils/disruption"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

const (
	// ValidationDelay is the time between the taint of an empty node and the validation: in
	// it the scheduler's cache receives the taint, and a binding under way reaches the API
	// server.
	ValidationDelay = time.Second
	// rejectedFor is how long a rejected deletion stays rejected. The queue calls Delete up to
	// four times within a moment before it takes an error for one, and the pod that was the
	// reason could be gone by then, with the command's taint.
	rejectedFor = 5 * time.Second
)

// Client is the client of Karpenter's disruption queue. It deletes the NodeClaim of an empty
// node only after a validation; whatever else the queue does passes.
type Client struct {
	client.Client
	live  client.Reader
	clock clock.Clock

	mu       sync.Mutex
	rejected map[types.UID]rejection
}

type rejection struct {
	at  time.Time
	err error
}

// NewClient returns a client that validates by reads of live, which must have no cache, and
// writes by inner.
func NewClient(inner client.Client, live client.Reader, clk clock.Clock) *Client {
	return &Client{Client: inner, live: live, clock: clk, rejected: map[types.UID]rejection{}}
}

// Delete implements client.Client. For a NodeClaim that is disrupted for the reason Empty it
// waits ValidationDelay and lists the pods of its node: where one counts, as in Karpenter's own
// definition of an empty node, or the taint is missing, the error is one on which the queue
// drops the command and removes its taint. Where a request fails, the queue tries again.
func (c *Client) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if claim, ok := object.(*karpv1.NodeClaim); ok {
		if err := c.validate(ctx, claim); err != nil {
			return err
		}
	}
	return c.Client.Delete(ctx, object, options...)
}

func (c *Client) validate(ctx context.Context, claim *karpv1.NodeClaim) error {
	if err := c.rejection(claim.UID); err != nil {
		return err
	}
	live := &karpv1.NodeClaim{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(claim), live); err != nil {
		return err // With NotFound the queue is finished.
	}
	if live.UID != claim.UID || !validated(live) || live.Status.NodeName == "" {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.clock.After(ValidationDelay):
	}
	reason, err := c.occupied(ctx, live.Status.NodeName)
	if err != nil {
		return fmt.Errorf("validating that node %s is empty: %w", live.Status.NodeName, err)
	}
	if reason == nil {
		return nil
	}
	rejected := disruption.NewUnrecoverableError(fmt.Errorf("node %s is not disrupted: %w", live.Status.NodeName, reason))
	c.reject(claim.UID, rejected)
	return rejected
}

// validated is whether the NodeClaim is disrupted since its node is empty.
func validated(claim *karpv1.NodeClaim) bool {
	condition := claim.StatusConditions().Get(karpv1.ConditionTypeDisruptionReason)
	return condition.IsTrue() && condition.Reason == string(karpv1.DisruptionReasonEmpty)
}

// occupied returns why the node must not be disrupted as an empty one, or nil.
func (c *Client) occupied(ctx context.Context, name string) (reason, err error) {
	node := &corev1.Node{}
	if err := c.live.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		// Without a Node nothing runs there that Kubernetes could protect.
		return nil, client.IgnoreNotFound(err)
	}
	if !tainted(node) {
		return errors.New("its taint " + karpv1.DisruptedNoScheduleTaint.Key + " was removed"), nil
	}
	pods := &corev1.PodList{}
	if err := c.live.List(ctx, pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; podutils.IsReschedulable(pod) && disruptionutils.EvictionCost(ctx, pod) > 0 {
			return fmt.Errorf("pod %s was bound to it", client.ObjectKeyFromObject(pod)), nil
		}
	}
	return nil, nil
}

func tainted(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&karpv1.DisruptedNoScheduleTaint) {
			return true
		}
	}
	return false
}

func (c *Client) reject(claim types.UID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejected[claim] = rejection{at: c.clock.Now(), err: err}
}

// rejection is the error with which a deletion of the NodeClaim was rejected just now, or nil.
func (c *Client) rejection(claim types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, r := range c.rejected {
		if c.clock.Since(r.at) >= rejectedFor {
			delete(c.rejected, uid)
		}
	}
	return c.rejected[claim].err
}
