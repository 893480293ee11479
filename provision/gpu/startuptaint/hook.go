package startuptaint

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/gpu"
)

const (
	manufacturerLabel = "karpenter.k8s.aws/instance-gpu-manufacturer"
	nvidia            = "nvidia"
	// providerIDField is the index of nodes by spec.providerID that the engine
	// puts on its cache.
	providerIDField = "spec.providerID"
	// again is how soon registration tries again; the node's own event is sooner.
	again = time.Second
)

type hook struct {
	client  client.Client
	sharing func(context.Context) (gpu.Sharing, error)
	logged  once
}

// NewHook returns what keeps a node with GPUs from registering without the startup
// taint. Until a node is registered, Karpenter's own taint keeps every pod away, so
// the taint comes in time even where user data does not bring it: on images of the
// user's own, and on nodes that were launched before the decorator was there. The
// client must be the engine's, whose cache finds nodes by their provider ID.
func NewHook(c client.Client, sharing func(context.Context) (gpu.Sharing, error)) cloudprovider.NodeLifecycleHook {
	return &hook{client: c, sharing: sharing}
}

// Name is the hook's name in Karpenter's log and in the NodeClaim's condition.
func (h *hook) Name() string { return "PoolwrightGPUStartupTaint" }

// Registered taints the claim's node if it must be and is not, and lets it register
// once the taint is observed. Karpenter patches the node that it had read before this
// was called, under the version it had then: after ours that fails, it comes again,
// reads the node with the taint, and goes on. A cache that does not show the taint yet
// makes our own patch fail the same way, so a node never registers without it.
func (h *hook) Registered(ctx context.Context, claim *karpv1.NodeClaim) (cloudprovider.NodeLifecycleHookResult, error) {
	pass := cloudprovider.NodeLifecycleHookResult{}
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	if pool == "" || claim.Status.ProviderID == "" || !claimHasGPU(claim) || claim.StatusConditions().Get(karpv1.ConditionTypeRegistered).IsTrue() {
		return pass, nil
	}
	sharing, err := h.sharing(ctx)
	if h.logged.changed(err) {
		log.FromContext(ctx).Error(err, "cannot read the DevicePlugin: nodes with GPUs wait until it can be read")
	}
	if _, served := sharing.ConfigForPool(pool); err == nil && !served {
		return pass, nil
	}
	nodes := &corev1.NodeList{}
	if err := h.client.List(ctx, nodes, client.MatchingFields{providerIDField: claim.Status.ProviderID}); err != nil {
		return pass, fmt.Errorf("finding the node of NodeClaim %q: %w", claim.Name, err)
	}
	for i := range nodes.Items {
		if !lacksTaint(&nodes.Items[i]) {
			continue
		}
		if err := h.taint(ctx, nodes.Items[i].DeepCopy()); err != nil {
			return pass, err
		}
		return cloudprovider.NodeLifecycleHookResult{RequeueAfter: again}, nil
	}
	return pass, nil
}

// taint adds the taint. That the node has changed or gone meanwhile is no error:
// registration tries again.
func (h *hook) taint(ctx context.Context, node *corev1.Node) error {
	stored := node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, taint())
	err := h.client.Patch(ctx, node, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("tainting node %q until it advertises its GPUs: %w", node.Name, err)
	}
	log.FromContext(ctx).Info("tainted a node that came without the taint, until it advertises its GPUs", "Node", node.Name, "taint", gpu.StartupTaint)
	return nil
}

// lacksTaint is true for a node that is not registered and was neither tainted
// nor released. One that is registered may have pods, and is never tainted.
func lacksTaint(node *corev1.Node) bool {
	if node.Labels[karpv1.NodeRegisteredLabelKey] == "true" || node.Labels[karpv1.NodeInitializedLabelKey] == "true" {
		return false
	}
	_, released := node.Annotations[gpu.AllocatableAnnotation]
	return !released && !slices.ContainsFunc(node.Spec.Taints, ours)
}

// claimHasGPU reads the claim and not the node, to which Karpenter copies the
// labels only when it registers.
func claimHasGPU(claim *karpv1.NodeClaim) bool {
	return claim.Labels[manufacturerLabel] == nvidia || anyGPU(claim.Status.Capacity)
}
