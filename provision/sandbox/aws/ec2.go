package aws

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// ec2Operations is EC2 as far as it is played, with every parameter that each
// operation understands.
func ec2Operations() map[string]operation {
	list := []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken"}
	also := func(params ...string) []string { return append(slices.Clone(list), params...) }
	return merged(networkOperations(), reservationOperations(), imageChanges(), map[string]operation{
		"DescribeInstanceTypes":         {params: also("InstanceType.#"), read: true, run: describeInstanceTypes},
		"DescribeInstanceTypeOfferings": {params: also("LocationType"), read: true, run: describeOfferings},
		"DescribeSpotPriceHistory":      {params: also("AvailabilityZone", "InstanceType.#", "ProductDescription.#", "StartTime", "EndTime"), read: true, run: describeSpotPrices},
		"DescribeSubnets":               {params: also("SubnetId.#"), read: true, run: describeSubnets},
		"DescribeSecurityGroups":        {params: also("GroupId.#", "GroupName.#"), read: true, run: describeSecurityGroups},
		"DescribeImages":                {params: also("ImageId.#", "Owner.#", "IncludeDeprecated", "IncludeDisabled"), read: true, run: describeImages},
		"DescribeLaunchTemplates":       {params: also("LaunchTemplateId.#", "LaunchTemplateName.#"), read: true, run: describeTemplates},
		"CreateLaunchTemplate":          {params: templateParams(), run: createTemplate},
		"DeleteLaunchTemplate":          {params: []string{"LaunchTemplateId", "LaunchTemplateName"}, run: deleteTemplate},
		"CreateFleet":                   {params: fleetParams(), class: "CreateFleet", before: func(c *Cloud) time.Duration { return c.account.Delays.Fleet }, run: createFleet},
		"RunInstances":                  {params: runParams(), class: "RunInstances", run: runInstances},
		"DescribeInstances":             {params: also("InstanceId.#"), read: true, run: describeInstances},
		"DescribeInstanceStatus":        {params: also("InstanceId.#", "IncludeAllInstances"), read: true, run: describeStatus},
		"TerminateInstances":            {params: []string{"InstanceId.#"}, class: "TerminateInstances", run: terminateInstances},
		"CreateTags":                    {params: []string{"ResourceId.#", "Tag.#.Key", "Tag.#.Value"}, run: createTags},
		"DeleteTags":                    {params: []string{"ResourceId.#", "Tag.#.Key", "Tag.#.Value"}, run: deleteTags},
		"DescribeCapacityReservations":  {params: also("CapacityReservationId.#"), read: true, run: describeReservations},
		"DescribePlacementGroups":       {params: []string{"Filter.#.Name", "Filter.#.Value.#", "GroupId.#", "GroupName.#"}, read: true, run: describeGroups},
		"DescribeVolumes":               {params: also("VolumeId.#"), read: true, run: describeVolumes},
		"DescribeNetworkInterfaces":     {params: also("NetworkInterfaceId.#"), read: true, run: describeInterfaces},
		"DescribeSpotInstanceRequests":  {params: also("SpotInstanceRequestId.#"), read: true, run: describeSpotRequests},
		"StopInstances":                 {params: []string{"InstanceId.#", "Force"}, run: stopInstances},
	})
}

// filter is one condition of a Describe call: any of its values.
type filter struct {
	name   string
	values []string
}

func (in *call) filters() ([]filter, error) {
	var out []filter
	for _, f := range in.Form.Each("Filter") {
		next := filter{f.Get("Name"), f.List("Value")}
		if next.name == "" || len(next.values) == 0 {
			return nil, api.Refuse("InvalidParameterValue", "A filter needs a name and at least one value; got name '%s' with %d values.", next.name, len(next.values))
		}
		out = append(out, next)
	}
	return out, nil
}

// attributes maps the filters that a kind of thing has to the values that each
// thing has for it.
type attributes[T any] map[string]func(T) []string

// one is an attribute with exactly one value.
func one[T any](get func(T) string) func(T) []string {
	return func(v T) []string { return []string{get(v)} }
}

// choose keeps the things that pass all filters of the request. Filters that
// the kind does not have are an error by name; tags is nil for kinds without.
func choose[T any](in *call, things []T, known attributes[T], tags func(T) map[string]string) ([]T, error) {
	fs, err := in.filters()
	if err != nil {
		return nil, err
	}
	for _, f := range fs {
		if _, ok := known[f.name]; !ok && !(tags != nil && isTagFilter(f.name)) {
			return nil, api.Refuse("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
	}
	var out []T
	for _, v := range things {
		if passes(fs, v, known, tags) {
			out = append(out, v)
		}
	}
	return out, nil
}

func passes[T any](fs []filter, v T, known attributes[T], tags func(T) map[string]string) bool {
	for _, f := range fs {
		var have []string
		if get, ok := known[f.name]; ok {
			have = get(v)
		} else {
			have = tagValues(f.name, tags(v))
		}
		hit := slices.ContainsFunc(have, func(h string) bool {
			return slices.ContainsFunc(f.values, func(want string) bool { return query.Wildcard(want, h) })
		})
		if !hit {
			return false
		}
	}
	return true
}

// pageLimits are the bounds of MaxResults; above most it is lowered in silence,
// as EC2 does.
type pageLimits struct{ least, most int }

// idForms are the ids of which EC2 says that they are no ids, by their prefix, and
// the code by which it says so. Other kinds are only ever not found.
func idForms() map[string]string {
	return map[string]string{
		"i": "InvalidInstanceID.Malformed", "sg": "InvalidGroupId.Malformed", "ami": "InvalidAMIID.Malformed",
		"vol": "InvalidVolumeID.Malformed", "eni": "InvalidNetworkInterfaceId.Malformed", "sir": "InvalidSpotInstanceRequestID.Malformed",
	}
}

var idForm = regexp.MustCompile(`^[a-z]+-([0-9a-f]{8}|[0-9a-f]{17})$`)

// wellFormed refuses the first id that is none of the kind with that prefix.
func wellFormed(prefix string, ids []string) error {
	for _, id := range ids {
		if !strings.HasPrefix(id, prefix+"-") || !idForm.MatchString(id) {
			return api.Refuse(idForms()[prefix], "Invalid id: \"%s\" (expecting \"%s-...\")", id, prefix)
		}
	}
	return nil
}

// ids checks that everything that was asked for by id is there.
func missing(asked []string, has func(string) bool) string {
	for _, id := range asked {
		if !has(id) {
			return id
		}
	}
	return ""
}
