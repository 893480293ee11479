package scaffold

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/provision/engine"
)

// Discover fills in the account, and where neither is given, subnets and security group, as EKS describes the
// cluster. It needs credentials that allow eks:DescribeCluster.
func (v Values) Discover(ctx context.Context) (Values, error) {
	described, err := engine.DescribeCluster(ctx, v.Region, v.Cluster)
	if err != nil {
		return v, fmt.Errorf("%w; or give --account, and no request is made", err)
	}
	v.Account = described.Account
	if len(v.Subnets)+len(v.SecurityGroups) == 0 && described.SecurityGroup != "" {
		v.Subnets, v.SecurityGroups = described.Subnets, []string{described.SecurityGroup}
	}
	return v, nil
}
