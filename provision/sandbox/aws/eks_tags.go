package aws

import (
	"maps"
	"net/http"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// eksTagged finds the live tags of the ARN in the path.
func (in *call) eksTagged() (map[string]string, error) {
	arn := in.Segment(1)
	if arn == in.cloud.clusterARN() {
		return in.st.eks.tags, nil
	}
	for _, e := range in.st.eks.entries {
		if e.arn == arn {
			return e.tags, nil
		}
	}
	for _, g := range in.st.eks.nodeGroups {
		if in.cloud.nodeGroupARN(g) == arn {
			return g.tags, nil
		}
	}
	for _, a := range in.st.eks.addons {
		if in.cloud.addonARN(a) == arn {
			return a.tags, nil
		}
	}
	for _, a := range in.st.eks.associations {
		if in.cloud.associationARN(a) == arn {
			return a.tags, nil
		}
	}
	return nil, api.NewError(http.StatusNotFound, "NotFoundException", "No resource was found for the ARN "+arn)
}

func tagEKS(in *call) (any, error) {
	var ask struct{ Tags map[string]string }
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	have, err := in.eksTagged()
	if err != nil {
		return nil, err
	}
	tags, err := eksTags(ask.Tags)
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

func untagEKS(in *call) (any, error) {
	have, err := in.eksTagged()
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

func listEKSTags(in *call) (any, error) {
	have, err := in.eksTagged()
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": maps.Clone(have)}, nil
}
