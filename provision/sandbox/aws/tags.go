package aws

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func isTagFilter(name string) bool {
	return name == "tag-key" || name == "tag-value" || strings.HasPrefix(name, "tag:") && len(name) > len("tag:")
}

// tagValues is what a tag filter compares: one tag's value, all keys or all
// values.
func tagValues(filter string, tags map[string]string) []string {
	switch filter {
	case "tag-key":
		return slices.Collect(maps.Keys(tags))
	case "tag-value":
		return slices.Collect(maps.Values(tags))
	}
	if v, ok := tags[strings.TrimPrefix(filter, "tag:")]; ok {
		return []string{v}
	}
	return nil
}

// readTags reads Tag.1.Key, Tag.1.Value … and refuses what EC2 would.
func readTags(forms []query.Form) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range forms {
		k, v := f.Get("Key"), f.Get("Value")
		switch {
		case k == "" || len(k) > 128 || len(v) > 256:
			return nil, api.Refuse("InvalidParameterValue", "Tag key '%s' or its value is empty or too long (128 and 256 characters).", k)
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return nil, api.Refuse("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use: '%s'", k)
		}
		if _, twice := out[k]; twice {
			return nil, api.Refuse("InvalidParameterValue", "Duplicate tag key '%s' specified.", k)
		}
		out[k] = v
	}
	if len(out) > api.MostTags {
		return nil, api.Refuse("TagLimitExceeded", "More than %d tags specified.", api.MostTags)
	}
	return out, nil
}

// checkTags refuses a TagSpecification that no launch can have.
func checkTags(f query.Form) error {
	for _, s := range f.Each("TagSpecification") {
		if _, err := readTags(s.Each("Tag")); err != nil {
			return err
		}
		switch kind := s.Get("ResourceType"); kind {
		case "instance", "volume", "fleet", "launch-template", "network-interface", "spot-instances-request":
		default:
			return api.Refuse("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
	}
	return nil
}

// tagsOnly reads TagSpecification where only one type of resource can be tagged.
func tagsOnly(f query.Form, resource string) (map[string]string, error) {
	return tagsIn(f.Each("TagSpecification"), resource)
}

func tagsIn(specifications []query.Form, resource string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range specifications {
		if kind := s.Get("ResourceType"); kind != resource {
			return nil, api.Refuse("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
		tags, err := readTags(s.Each("Tag"))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, tags)
	}
	return out, nil
}

func tagSet(tags map[string]string) query.Element {
	rows := make([]query.Element, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		rows = append(rows, query.Group("item", query.Text("key", k), query.Text("value", tags[k])))
	}
	return query.List("tagSet", "item", rows)
}

// createTags tags instances, launch templates, subnets, security groups, images,
// volumes, network interfaces, reservations, placement groups and spot requests; if one of the ids is unknown, nothing is tagged.
func createTags(in *call) (any, error) {
	tags, err := readTags(in.Form.Each("Tag"))
	if err != nil {
		return nil, err
	}
	ids := in.Form.List("ResourceId")
	if len(ids) == 0 || len(tags) == 0 {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameters ResourceId and Tag")
	}
	var found []map[string]string
	for _, id := range ids {
		have := in.st.tagsOf(id)
		if have == nil {
			return nil, notFound(id)
		}
		merged := maps.Clone(have)
		maps.Copy(merged, tags)
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
func deleteTags(in *call) (any, error) {
	ids, forms := in.Form.List("ResourceId"), in.Form.Each("Tag")
	if len(ids) == 0 {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter ResourceId")
	}
	for _, f := range forms {
		if k := f.Get("Key"); k == "" || strings.HasPrefix(strings.ToLower(k), "aws:") {
			return nil, api.Refuse("InvalidParameterValue", "Tag key '%s' is empty, or reserved for internal use.", k)
		}
	}
	var found []map[string]string
	for _, id := range ids {
		have := in.st.tagsOf(id)
		if have == nil {
			return nil, notFound(id)
		}
		found = append(found, have)
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	for _, have := range found {
		maps.DeleteFunc(have, func(k, v string) bool { return unwanted(forms, k, v) })
	}
	return []query.Element{query.Bool("return", true)}, nil
}

// unwanted tells whether the forms of DeleteTags mean that tag; AWS's own stay.
func unwanted(forms []query.Form, k, v string) bool {
	if len(forms) == 0 {
		return !strings.HasPrefix(strings.ToLower(k), "aws:")
	}
	return slices.ContainsFunc(forms, func(f query.Form) bool {
		return f.Get("Key") == k && (!f.Has("Value") || f.Get("Value") == v)
	})
}

// tagsOf is the live tag map of a resource, nil if there is none of that id.
func (st *state) tagsOf(id string) map[string]string {
	if i := st.instance(id); i != nil {
		return i.Tags
	}
	for _, t := range st.templates {
		if t.id == id {
			return t.tags
		}
	}
	if s := st.network.subnet(id); s != nil {
		return s.tags
	}
	if g, ok := st.network.group(id); ok {
		return g.tags
	}
	if i := st.image(id); i != nil {
		return i.tags
	}
	if v := st.volume(id); v != nil {
		return v.tags
	}
	if n := st.netInterface(id); n != nil {
		return n.tags
	}
	return st.boughtTags(id)
}

// boughtTags are those of reservations, placement groups and spot requests.
func (st *state) boughtTags(id string) map[string]string {
	for _, r := range st.reservations {
		if r.ID == id {
			return r.Tags
		}
	}
	if g := st.placementGroup(id, ""); g != nil {
		return g.Tags
	}
	for _, i := range st.instances {
		if i.spotRequest() == id {
			return i.spotTags
		}
	}
	return nil
}

// notFound is the error for an id of which there is no resource, or that is no
// id, by its prefix.
func notFound(id string) error {
	kind, _, _ := strings.Cut(id, "-")
	code := map[string]string{
		"i": "InvalidInstanceID.NotFound", "lt": "InvalidLaunchTemplateId.NotFound", "subnet": "InvalidSubnetID.NotFound",
		"sg": "InvalidGroup.NotFound", "ami": "InvalidAMIID.NotFound", "cr": "InvalidCapacityReservationId.NotFound",
		"vol": "InvalidVolume.NotFound", "eni": "InvalidNetworkInterfaceID.NotFound", "pg": "InvalidPlacementGroup.Unknown", "sir": "InvalidSpotInstanceRequestID.NotFound",
	}[kind]
	if code == "" {
		return api.Refuse("InvalidID", "The ID '%s' is not valid", id)
	}
	if _, known := idForms()[kind]; known {
		if err := wellFormed(kind, []string{id}); err != nil {
			return err
		}
	}
	return api.Refuse(code, "The ID '%s' does not exist", id)
}
