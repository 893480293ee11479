package iam

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Resources are the roles with their managed policies, and the instance profiles with their
// role.
func (svc *Service) Resources() []api.Resource {
	var out []api.Resource
	for _, name := range slices.Sorted(maps.Keys(svc.roles)) {
		r := svc.roles[name]
		policies := slices.Sorted(maps.Values(r.attached))
		out = append(out, api.Resource{Service: "iam", Kind: "role", Name: name, Value: strings.Join(policies, " "), Tags: maps.Clone(r.tags)})
	}
	for _, name := range slices.Sorted(maps.Keys(svc.profiles)) {
		p := svc.profiles[name]
		out = append(out, api.Resource{Service: "iam", Kind: "instance-profile", Name: name, Value: p.role, Tags: maps.Clone(p.tags)})
	}
	return out
}
