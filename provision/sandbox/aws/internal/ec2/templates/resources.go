package templates

import (
	"maps"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Resources are the launch templates.
func (svc *Service) Resources() []api.Resource {
	var out []api.Resource
	for _, t := range svc.templates {
		out = append(out, api.Resource{Service: "ec2", Kind: "launch-template", Name: t.Name, Tags: maps.Clone(t.tags)})
	}
	return out
}
