package resource

import (
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Clients are the clients of the AWS services for one cluster's account and region.
type Clients struct {
	EC2    *ec2.Client
	EKS    *eks.Client
	IAM    *iam.Client
	SQS    *sqs.Client
	Events *eventbridge.Client
	Logs   *cloudwatchlogs.Client
	Quotas *servicequotas.Client
	// Scope is the cluster, and where it is.
	Scope Scope
	// responses is nil where each request is sent.
	responses *responseCache
}

// NewClients makes the clients of one cluster; cfg's region must be the scope's.
func NewClients(cfg sdk.Config, p Scope) *Clients {
	return &Clients{
		EC2: ec2.NewFromConfig(cfg), EKS: eks.NewFromConfig(cfg), IAM: iam.NewFromConfig(cfg),
		SQS: sqs.NewFromConfig(cfg), Events: eventbridge.NewFromConfig(cfg), Logs: cloudwatchlogs.NewFromConfig(cfg),
		Quotas: servicequotas.NewFromConfig(cfg), Scope: p,
	}
}

// responseCache keeps, for one observation of AWS, the responses that several kinds need: what an
// observation reports of a resource comes from one response, and the request is sent once.
type responseCache struct {
	mu        sync.Mutex
	responses map[string]func() (any, error)
}

// Cached returns clients with an empty cache of responses, for one observation.
func (c *Clients) Cached() *Clients {
	out := *c
	out.responses = &responseCache{responses: map[string]func() (any, error){}}
	return &out
}

// CachedCall sends a request, or returns the response that it got in this observation, by the name of
// the request. Clients without a cache, as those that write, send it each time.
func CachedCall[T any](c *Clients, request string, send func() (T, error)) (T, error) {
	if c.responses == nil {
		return send()
	}
	c.responses.mu.Lock()
	response := c.responses.responses[request]
	if response == nil {
		response = sync.OnceValues(func() (any, error) { return send() })
		c.responses.responses[request] = response
	}
	c.responses.mu.Unlock()
	out, err := response()
	found, _ := out.(T)
	return found, err
}
