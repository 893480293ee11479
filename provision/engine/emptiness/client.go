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

// ReasonFunc returns for which reason a NodeClaim is disrupted.
type ReasonFunc func(claim *karpv1.NodeClaim) karpv1.DisruptionReason

// Reasons returns the reason of the queue's command for a NodeClaim, and Empty where it has no
// command: what is not known is validated. The queue is read at each call, since the client that
// needs it is made before the queue.
func Reasons(queue **disruption.Queue) ReasonFunc {
	return func(claim *karpv1.NodeClaim) karpv1.DisruptionReason {
		q := *queue
		q.RLock()
		defer q.RUnlock()
		if command, ok := q.ProviderIDToCommand[claim.Status.ProviderID]; ok && command.Reason() != "" {
			return command.Reason()
		}
		return karpv1.DisruptionReasonEmpty
	}
}

// Client is the client of Karpenter's disruption queue. It deletes the NodeClaim of an empty
// node only after a validation; whatever else the queue does passes.
type Client struct {
	client.Client
	live   client.Reader
	clock  clock.Clock
	reason ReasonFunc

	mu       sync.Mutex
	rejected map[types.UID]rejection
}

type rejection struct {
	at  time.Time
	err error
}

// NewClient returns a client that validates by reads of live, which must have no cache, and
// writes by inner. It validates what reason returns Empty for.
func NewClient(inner client.Client, live client.Reader, clk clock.Clock, reason ReasonFunc) *Client {
	return &Client{Client: inner, live: live, clock: clk, reason: reason, rejected: map[types.UID]rejection{}}
}

// Delete implements client.Client. For a NodeClaim that is disrupted for the reason Empty it
// waits ValidationDelay and lists the pods of its node: where one counts, as in Karpenter's own
// definition of an empty node, the taint is missing, or the NodeClaim names no node, the error is
// one on which the queue drops the command and removes its taint. Where a request fails, the
// queue tries again. Only the NodeClaim that was validated is deleted, never another of its name.
func (c *Client) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	claim, ok := object.(*karpv1.NodeClaim)
	if !ok || c.reason(claim) != karpv1.DisruptionReasonEmpty {
		return c.Client.Delete(ctx, object, options...)
	}
	if err := c.validate(ctx, claim); err != nil {
		return err
	}
	return c.Client.Delete(ctx, object, append(options, client.Preconditions{UID: &claim.UID})...)
}

func (c *Client) validate(ctx context.Context, claim *karpv1.NodeClaim) error {
	if err := c.rejection(claim.UID); err != nil {
		return err
	}
	name := claim.Status.NodeName
	if name == "" {
		return c.reject(claim, errors.New("it names no node whose pods could be listed"))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.clock.After(ValidationDelay):
	}
	reason, err := c.occupied(ctx, name)
	if err != nil {
		return fmt.Errorf("validating that node %s of NodeClaim %s is empty: %w", name, claim.Name, err)
	}
	if reason != nil {
		return c.reject(claim, reason)
	}
	return nil
}

// occupied returns why the node must not be disrupted as an empty one, or nil.
func (c *Client) occupied(ctx context.Context, name string) (reason, err error) {
	node := &corev1.Node{}
	if err := c.live.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		// Without a Node nothing runs there that Kubernetes could protect.
		return nil, client.IgnoreNotFound(err)
	}
	if !tainted(node) {
		return fmt.Errorf("the taint %s of node %s was removed", karpv1.DisruptedNoScheduleTaint.Key, name), nil
	}
	pods := &corev1.PodList{}
	if err := c.live.List(ctx, pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; podutils.IsReschedulable(pod) && disruptionutils.EvictionCost(ctx, pod) > 0 {
			return fmt.Errorf("pod %s was bound to node %s", client.ObjectKeyFromObject(pod), name), nil
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

// reject returns the error on which the queue drops the command, and keeps it for its retries.
func (c *Client) reject(claim *karpv1.NodeClaim, reason error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := disruption.NewUnrecoverableError(fmt.Errorf("NodeClaim %s is not deleted as that of an empty node: %w", claim.Name, reason))
	c.rejected[claim.UID] = rejection{at: c.clock.Now(), err: err}
	return err
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
