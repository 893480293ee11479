// Package instancetypes spares Karpenter's AWS provider the instance types that a call does not need:
// each of its lists resolves the offerings of all instance types of the region. It refuses to
// keep any, so that all that is read is as new as without it. Start reading at Scoped.
package instancetypes

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// DriftProvider is the AWS provider, on top of Scoped, whose IsDrifted reads the one instance type that the
// NodeClaim has. Karpenter's own resolves the offerings of all instance types of the region
// and takes the NodeClaim's from them, for each event of a NodeClaim or of a pod on its node.
type DriftProvider struct{ cloudprovider.CloudProvider }

// IsDrifted implements cloudprovider.CloudProvider.
func (c DriftProvider) IsDrifted(ctx context.Context, claim *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	if name := claim.Labels[corev1.LabelInstanceTypeStable]; name != "" {
		ctx = context.WithValue(ctx, driftType{}, types.InstanceType(name))
	}
	return c.CloudProvider.IsDrifted(ctx, claim)
}

// driftType is the key of a context's instance type, the only one that drift needs.
type driftType struct{}

// without is the key of a context in which instances are listed without their instance
// types, whatever its value.
type without struct{}

// Scoped reads what the context needs: the drift of a NodeClaim one instance type,
// a list of instances none.
type Scoped struct{ instancetype.Provider }

// List implements instancetype.Provider.
func (p Scoped) List(ctx context.Context, class instancetype.NodeClass) ([]*cloudprovider.InstanceType, error) {
	if name, ok := ctx.Value(driftType{}).(types.InstanceType); ok {
		// One that is not found, or any other error, is for the list to name, as without this.
		if it, err := p.Get(ctx, class, name); err == nil {
			return []*cloudprovider.InstanceType{it}, nil
		}
	}
	return p.Provider.List(ctx, class)
}

// Get finds nothing in a context without instance types, which Karpenter's list of instances takes for
// an instance of whose type no more is known.
func (p Scoped) Get(ctx context.Context, class instancetype.NodeClass, name types.InstanceType) (*cloudprovider.InstanceType, error) {
	if ctx.Value(without{}) != nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: awsapis.Group, Resource: "instancetypes"}, string(name))
	}
	return p.Provider.Get(ctx, class, name)
}

// Without is the AWS provider, on top of Scoped, whose List has instances without their instance
// types: these decide nothing about whether an instance or a NodeClaim is there. Karpenter's own
// list is an error as long as the NodeOverlays
// of any instance's NodePool are not evaluated: for a moment after the start, and for as long as
// the instance types of the NodePool cannot be read.
type Without struct{ cloudprovider.CloudProvider }

// List implements cloudprovider.CloudProvider.
func (w Without) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	return w.CloudProvider.List(context.WithValue(ctx, without{}, true))
}
