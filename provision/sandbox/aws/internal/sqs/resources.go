package sqs

import (
	"maps"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Resources are the queues, with how long they keep messages.
func (svc *Service) Resources() []api.Resource {
	var out []api.Resource
	for _, q := range svc.queues {
		out = append(out, api.Resource{Service: "sqs", Kind: "queue", Name: q.name, Value: q.attributes["MessageRetentionPeriod"], Tags: maps.Clone(q.tags)})
	}
	return out
}
