// Package preflight reads from AWS what a person needs before an installation: whether
// there are credentials at all, and whether EC2 may launch spot instances in the
// account.
//
// It refuses to decide which cluster the credentials are for: the engine's gates do. It
// writes nothing. Start reading at Credentials.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"
)

// requestTimeout bounds one request, the SDK's retries included.
const requestTimeout = 20 * time.Second

// SpotServiceLinkedRole is the service-linked role by which EC2 launches spot instances. AWS
// makes it for an account at the first request that may make roles, which
// Karpenter's may not.
const SpotServiceLinkedRole = "AWSServiceRoleForEC2Spot"

// Credentials returns an error with the remedy where the configuration leads to no
// credentials. The SDK's own errors, of which it has many, name sources that do not
// exist on a laptop.
func Credentials(ctx context.Context, cfg aws.Config) error {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if cfg.Credentials != nil {
		_, err := cfg.Credentials.Retrieve(bounded)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.New("no AWS credentials were found: set AWS_PROFILE on a laptop (and log in, where the profile needs it), or give this pod's service account a role (EKS Pod Identity or IRSA)")
}

// SpotServiceLinkedRoleMissing reports whether the account has no SpotServiceLinkedRole. An error means
// that this could not be found out.
func SpotServiceLinkedRoleMissing(ctx context.Context, cfg aws.Config) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := iam.NewFromConfig(cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(SpotServiceLinkedRole)})
	if apiError, ok := errors.AsType[smithy.APIError](err); ok && apiError.ErrorCode() == "NoSuchEntity" {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting the role %s: %w", SpotServiceLinkedRole, err)
	}
	return false, nil
}
