package events

import (
	"fmt"
	"maps"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Resources are the rules, with their state and how many targets they have.
func (svc *Service) Resources() []api.Resource {
	var out []api.Resource
	for _, r := range svc.rules {
		out = append(out, api.Resource{Service: "events", Kind: "rule", Name: r.name, Value: fmt.Sprintf("%s %d", r.state, len(r.targets)), Tags: maps.Clone(r.tags)})
	}
	return out
}
