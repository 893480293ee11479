package eks

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Resources are the access entries, with their types.
func (svc *Service) Resources() []api.Resource {
	var out []api.Resource
	for _, principal := range slices.Sorted(maps.Keys(svc.entries)) {
		e := svc.entries[principal]
		out = append(out, api.Resource{Service: "eks", Kind: "access-entry", Name: principal, Value: e.kind, Tags: maps.Clone(e.tags)})
	}
	return out
}
