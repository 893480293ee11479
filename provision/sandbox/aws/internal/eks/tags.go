package eks

import (
	"maps"
	"net/http"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// tagged finds the live tags of the ARN in the path.
func (svc *Service) tagged(in *api.Call) (map[string]string, error) {
	arn := in.Segment(1)
	if arn == svc.clusterARN() {
		return svc.tags, nil
	}
	for _, e := range svc.entries {
		if e.arn == arn {
			return e.tags, nil
		}
	}
	for _, g := range svc.nodeGroups {
		if svc.nodeGroupARN(g) == arn {
			return g.tags, nil
		}
	}
	for _, a := range svc.addons {
		if svc.addonARN(a) == arn {
			return a.tags, nil
		}
	}
	for _, a := range svc.associations {
		if svc.associationARN(a) == arn {
			return a.tags, nil
		}
	}
	return nil, api.NewError(http.StatusNotFound, "NotFoundException", "No resource was found for the ARN "+arn)
}

func (svc *Service) tag(in *api.Call) (any, error) {
	var input struct{ Tags map[string]string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	have, err := svc.tagged(in)
	if err != nil {
		return nil, err
	}
	tags, err := checkTags(input.Tags)
	if err != nil {
		return nil, api.Refuse("BadRequestException", "%s", err)
	}
	all := maps.Clone(have)
	maps.Copy(all, tags)
	if len(all) > api.MostTags {
		return nil, api.Refuse("BadRequestException", "The resource would have more than %d tags.", api.MostTags)
	}
	maps.Copy(have, tags)
	return map[string]any{}, nil
}

func (svc *Service) untag(in *api.Call) (any, error) {
	have, err := svc.tagged(in)
	if err != nil {
		return nil, err
	}
	if len(in.Query["tagKeys"]) == 0 {
		return nil, api.Refuse("BadRequestException", "The request names no tagKeys.")
	}
	for _, k := range in.Query["tagKeys"] {
		delete(have, k)
	}
	return map[string]any{}, nil
}

func (svc *Service) listTags(in *api.Call) (any, error) {
	have, err := svc.tagged(in)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": maps.Clone(have)}, nil
}
