package gate

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// account compares the account of the credentials, and the account and region of
// the cluster, with what the Cluster object claims.
func (g Gates) account(ctx context.Context, cluster *ekstypes.Cluster, describeErr error) *ClosedGate {
	const check = "check the controller's AWS credentials and allow sts:GetCallerIdentity and eks:DescribeCluster"
	if g.AWS.Region != g.Region {
		return refuse(Account, "correct spec.region", "the AWS configuration is for %s, the Cluster claims %s", g.AWS.Region, g.Region)
	}
	caller, err := sts.NewFromConfig(g.AWS).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return unproven(Account, check, fmt.Errorf("getting the caller's account from STS: %w", brief(err)))
	}
	if got := aws.ToString(caller.Account); got != g.Account {
		return refuse(Account, "give the controller credentials of the account in spec.account, or correct that field",
			"the credentials belong to account %s, the Cluster claims %s", got, g.Account)
	}
	if describeErr != nil {
		return unproven(Account, check, describeErr)
	}
	name, err := arn.Parse(aws.ToString(cluster.Arn))
	if err != nil {
		return unproven(Account, check, fmt.Errorf("reading the cluster's ARN: %w", err))
	}
	if name.AccountID != g.Account || name.Region != g.Region || strings.TrimPrefix(name.Resource, "cluster/") != g.Cluster {
		return refuse(Account, "correct spec.name, spec.region and spec.account",
			"EKS returns %s, the Cluster declares %q in %s of account %s", name, g.Cluster, g.Region, g.Account)
	}
	return nil
}
