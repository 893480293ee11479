package engine

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// EKSCluster is what EKS describes of a cluster.
type EKSCluster struct {
	// Account is the twelve digits of its AWS account.
	Account string
	// Subnets are the ids of those of the control plane, SecurityGroup that of the cluster, "" where there is none.
	Subnets       []string
	SecurityGroup string
}

// DescribeCluster reads a cluster from EKS, with the credentials of the environment, which need
// eks:DescribeCluster.
func DescribeCluster(ctx context.Context, region, name string) (EKSCluster, error) {
	config, err := LoadAWS(ctx, region)
	if err != nil {
		return EKSCluster{}, err
	}
	out, err := eks.NewFromConfig(config).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		return EKSCluster{}, fmt.Errorf("describing EKS cluster %q in %s: %w: check name and region, and allow eks:DescribeCluster", name, region, err)
	}
	parsed, err := arn.Parse(aws.ToString(out.Cluster.Arn))
	if err != nil {
		return EKSCluster{}, fmt.Errorf("reading the account of EKS cluster %q from its ARN: %w", name, err)
	}
	described := EKSCluster{Account: parsed.AccountID}
	if vpc := out.Cluster.ResourcesVpcConfig; vpc != nil {
		described.Subnets, described.SecurityGroup = vpc.SubnetIds, aws.ToString(vpc.ClusterSecurityGroupId)
	}
	return described, nil
}
