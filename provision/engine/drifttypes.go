package engine

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// driftProvider is the AWS provider whose IsDrifted reads the one instance type that the
// NodeClaim has. Karpenter's own resolves the offerings of all instance types of the region
// and takes the NodeClaim's from them, for each event of a NodeClaim or of a pod on its node.
type driftProvider struct{ cloudprovider.CloudProvider }

func (c driftProvider) IsDrifted(ctx context.Context, claim *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	if name := claim.Labels[corev1.LabelInstanceTypeStable]; name != "" {
		ctx = context.WithValue(ctx, driftInstanceType{}, types.InstanceType(name))
	}
	return c.CloudProvider.IsDrifted(ctx, claim)
}

// driftInstanceType is the key of a context's instance type, the only one that drift needs.
type driftInstanceType struct{}

// driftInstanceTypes lists the context's instance type alone where it has one.
type driftInstanceTypes struct{ instancetype.Provider }

func (p driftInstanceTypes) List(ctx context.Context, class instancetype.NodeClass) ([]*cloudprovider.InstanceType, error) {
	if name, ok := ctx.Value(driftInstanceType{}).(types.InstanceType); ok {
		// One that is not found, or any other error, is for the list to name, as without this.
		if it, err := p.Get(ctx, class, name); err == nil {
			return []*cloudprovider.InstanceType{it}, nil
		}
	}
	return p.Provider.List(ctx, class)
}
