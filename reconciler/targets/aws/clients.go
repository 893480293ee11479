package aws

import (
	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/utils/clock"
)

// newClients makes the clients of one cluster; cfg's region is the place's.
func newClients(cfg sdk.Config, p place, c clock.Clock) *clients {
	return &clients{
		ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg),
		sqs: sqs.NewFromConfig(cfg), events: eventbridge.NewFromConfig(cfg), logs: cloudwatchlogs.NewFromConfig(cfg),
		quotas: servicequotas.NewFromConfig(cfg), clock: c, place: p,
	}
}
