package aws

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// responseCache keeps, for one look at AWS, the answers that several kinds need: what a
// look says of a thing comes from one answer, and AWS is asked once.
type responseCache struct {
	mu        sync.Mutex
	responses map[string]func() (any, error)
}

// caching are clients with a memo; they are made for one look.
func (c *clients) caching() *clients {
	out := *c
	out.responses = &responseCache{responses: map[string]func() (any, error){}}
	return &out
}

// once asks a question, or returns the answer that it got in this look. Who
// writes has no memo, and asks each time.
func once[T any](c *clients, question string, ask func() (T, error)) (T, error) {
	if c.responses == nil {
		return ask()
	}
	c.responses.mu.Lock()
	answer := c.responses.responses[question]
	if answer == nil {
		answer = sync.OnceValues(func() (any, error) { return ask() })
		c.responses.responses[question] = answer
	}
	c.responses.mu.Unlock()
	out, err := answer()
	found, _ := out.(T)
	return found, err
}

// cluster describes the control plane, with EKS's error as it is: see gone.
func (c *clients) cluster(ctx context.Context) (*ekstypes.Cluster, error) {
	return once(c, "cluster", func() (*ekstypes.Cluster, error) {
		out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.place.Cluster})
		if err != nil {
			return nil, err
		}
		return out.Cluster, nil
	})
}

// nodeGroup describes one of the cluster's node groups, with EKS's error as it
// is.
func (c *clients) nodeGroup(ctx context.Context, name string) (*ekstypes.Nodegroup, error) {
	return once(c, "node group "+name, func() (*ekstypes.Nodegroup, error) {
		out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &c.place.Cluster, NodegroupName: &name})
		if err != nil {
			return nil, err
		}
		return out.Nodegroup, nil
	})
}

// addon describes one of the cluster's add-ons, with EKS's error as it is.
func (c *clients) addon(ctx context.Context, name string) (*ekstypes.Addon, error) {
	return once(c, "add-on "+name, func() (*ekstypes.Addon, error) {
		out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: &c.place.Cluster, AddonName: &name})
		if err != nil {
			return nil, err
		}
		return out.Addon, nil
	})
}
