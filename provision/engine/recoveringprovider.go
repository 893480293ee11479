package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// recoveringProvider turns a panic inside the AWS provider into an error of that one call.
// controller-runtime recovers panics of reconcilers, but Karpenter also calls the
// provider from goroutines of its own, where a panic over one invalid object (such as a kubelet
// percentage that is no number) would end the process.
type recoveringProvider struct{ cloudprovider.CloudProvider }

func (c recoveringProvider) Create(ctx context.Context, claim *karpv1.NodeClaim) (out *karpv1.NodeClaim, err error) {
	defer recoverPanic(ctx, "launching an instance for NodeClaim "+claim.Name, &err)
	return c.CloudProvider.Create(ctx, claim)
}

func (c recoveringProvider) Delete(ctx context.Context, claim *karpv1.NodeClaim) (err error) {
	defer recoverPanic(ctx, "terminating instance "+claim.Status.ProviderID, &err)
	return c.CloudProvider.Delete(ctx, claim)
}

func (c recoveringProvider) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operationID string) (err error) {
	defer recoverPanic(ctx, "rebooting instance "+claim.Status.ProviderID, &err)
	return c.CloudProvider.Reboot(ctx, claim, operationID)
}

func (c recoveringProvider) Get(ctx context.Context, providerID string) (out *karpv1.NodeClaim, err error) {
	defer recoverPanic(ctx, "reading instance "+providerID, &err)
	return c.CloudProvider.Get(ctx, providerID)
}

func (c recoveringProvider) List(ctx context.Context) (out []*karpv1.NodeClaim, err error) {
	defer recoverPanic(ctx, "listing instances", &err)
	return c.CloudProvider.List(ctx)
}

func (c recoveringProvider) GetInstanceTypes(ctx context.Context, pool *karpv1.NodePool) (out []*cloudprovider.InstanceType, err error) {
	defer recoverPanic(ctx, "reading the instance types of NodePool "+pool.Name, &err)
	return c.CloudProvider.GetInstanceTypes(ctx, pool)
}

func (c recoveringProvider) IsDrifted(ctx context.Context, claim *karpv1.NodeClaim) (out cloudprovider.DriftReason, err error) {
	defer recoverPanic(ctx, "judging the drift of NodeClaim "+claim.Name, &err)
	return c.CloudProvider.IsDrifted(ctx, claim)
}

// recoverPanic is deferred: it writes a panic into the caller's error.
func recoverPanic(ctx context.Context, doing string, err *error) {
	if p := recover(); p != nil {
		log.FromContext(ctx).Info("recovered from a panic", "doing", doing, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = fmt.Errorf("%s: the AWS provider panicked with %v", doing, p)
	}
}
