// Package eks has the kinds of an EKS control plane, its add-ons and its managed node groups. It
// creates, upgrades and deletes none of them: it changes logging, and the sizes, labels and taints
// of node groups, and compares the rest. Start reading at NodeGroups.
package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// describeCluster describes the control plane, with EKS's error as it is: compare awserr.IsNotFound.
func describeCluster(ctx context.Context, c *resource.Clients) (*ekstypes.Cluster, error) {
	return resource.CachedCall(c, "cluster", func() (*ekstypes.Cluster, error) {
		out, err := c.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.Scope.Cluster})
		if err != nil {
			return nil, err
		}
		return out.Cluster, nil
	})
}

// describeNodeGroup describes one of the cluster's node groups, with EKS's error as it
// is.
func describeNodeGroup(ctx context.Context, c *resource.Clients, name string) (*ekstypes.Nodegroup, error) {
	return resource.CachedCall(c, "node group "+name, func() (*ekstypes.Nodegroup, error) {
		out, err := c.EKS.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &c.Scope.Cluster, NodegroupName: &name})
		if err != nil {
			return nil, err
		}
		return out.Nodegroup, nil
	})
}

// describeAddon describes one of the cluster's add-ons, with EKS's error as it is.
func describeAddon(ctx context.Context, c *resource.Clients, name string) (*ekstypes.Addon, error) {
	return resource.CachedCall(c, "add-on "+name, func() (*ekstypes.Addon, error) {
		out, err := c.EKS.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: &c.Scope.Cluster, AddonName: &name})
		if err != nil {
			return nil, err
		}
		return out.Addon, nil
	})
}
