package scaffold

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/preflight"
)

// Discover fills in the account, and where neither is given, subnets and security group, as EKS describes the
// cluster. It needs credentials that allow eks:DescribeCluster.
func (v Values) Discover(ctx context.Context) (Values, error) {
	described, err := v.describe(ctx)
	if err != nil {
		return v, fmt.Errorf("%w; or give --account, and no request is made", err)
	}
	v.Account = described.Account
	if len(v.Subnets)+len(v.SecurityGroups) == 0 && described.SecurityGroup != "" {
		v.Subnets, v.SecurityGroups = described.Subnets, []string{described.SecurityGroup}
	}
	return v, nil
}

// describe checks for credentials first: the SDK's own error has each source that it tried.
func (v Values) describe(ctx context.Context) (engine.EKSCluster, error) {
	config, err := engine.LoadAWS(ctx, v.Region)
	if err != nil {
		return engine.EKSCluster{}, err
	}
	if err := preflight.Credentials(ctx, config); err != nil {
		return engine.EKSCluster{}, err
	}
	return engine.DescribeCluster(ctx, v.Region, v.Cluster)
}
