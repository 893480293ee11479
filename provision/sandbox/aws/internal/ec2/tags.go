package ec2

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// createTags tags instances, launch templates, subnets, security groups, images,
// volumes, network interfaces, reservations, placement groups and spot requests; if one of the ids is unknown, nothing is tagged.
func (svc *Service) createTags(in *api.Call) (any, error) {
	tags, err := ec2query.ReadTags(in.Form.Each("Tag"))
	if err != nil {
		return nil, err
	}
	ids := in.Form.List("ResourceId")
	if len(ids) == 0 || len(tags) == 0 {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameters ResourceId and Tag")
	}
	var found []map[string]string
	for _, id := range ids {
		have := svc.tagsOf(id)
		if have == nil {
			return nil, ec2query.NotFound(id)
		}
		merged := maps.Clone(have)
		maps.Copy(merged, tags)
		maps.DeleteFunc(merged, func(k, _ string) bool { return reserved(k) }) // AWS's own do not count
		if len(merged) > api.MostTags {
			return nil, api.Refuse("TagLimitExceeded", "The maximum number of tags, %d, was reached for %s.", api.MostTags, id)
		}
		found = append(found, have)
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	for _, have := range found {
		maps.Copy(have, tags)
	}
	return []query.Element{query.Bool("return", true)}, nil
}

// deleteTags takes tags away: those of the keys given, where a value is given
// only if it is that one, or all without any key. A tag that is not there is no
// error.
func (svc *Service) deleteTags(in *api.Call) (any, error) {
	ids, forms := in.Form.List("ResourceId"), in.Form.Each("Tag")
	if len(ids) == 0 {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter ResourceId")
	}
	for _, f := range forms {
		if k := f.Get("Key"); k == "" || reserved(k) {
			return nil, api.Refuse("InvalidParameterValue", "Tag key '%s' is empty, or reserved for internal use.", k)
		}
	}
	var found []map[string]string
	for _, id := range ids {
		have := svc.tagsOf(id)
		if have == nil {
			return nil, ec2query.NotFound(id)
		}
		found = append(found, have)
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	for _, have := range found {
		maps.DeleteFunc(have, func(k, v string) bool { return selected(forms, k, v) })
	}
	return []query.Element{query.Bool("return", true)}, nil
}

// reserved reports whether a tag's key is AWS's own.
func reserved(key string) bool { return strings.HasPrefix(strings.ToLower(key), "aws:") }

// selected reports whether the forms of DeleteTags mean that tag; AWS's own stay.
func selected(forms []query.Form, k, v string) bool {
	if len(forms) == 0 {
		return !reserved(k)
	}
	return slices.ContainsFunc(forms, func(f query.Form) bool {
		return f.Get("Key") == k && (!f.Has("Value") || f.Get("Value") == v)
	})
}

// tagsOf is the live tag map of a resource, nil if there is none of that id.
func (svc *Service) tagsOf(id string) map[string]string {
	if i := svc.instance(id); i != nil {
		return i.Tags
	}
	if tags := svc.templates.Tags(id); tags != nil {
		return tags
	}
	if tags := svc.VPC.Tags(id); tags != nil {
		return tags
	}
	if tags := svc.Images.Tags(id); tags != nil {
		return tags
	}
	if tags := svc.ebs.Tags(id); tags != nil {
		return tags
	}
	return svc.boughtTags(id)
}

// boughtTags are those of reservations, placement groups and spot requests.
func (svc *Service) boughtTags(id string) map[string]string {
	if tags := svc.Reservations.Tags(id); tags != nil {
		return tags
	}
	if g := svc.Placement.Find(id, ""); g != nil {
		return g.Tags
	}
	for _, i := range svc.instances {
		if i.spotRequest() == id {
			return i.spotTags
		}
	}
	return nil
}
