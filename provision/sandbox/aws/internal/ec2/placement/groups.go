// Package placement are placement groups and the partitions in which instances
// are. Nothing here is near or far from anything. Start with Service.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Group is a placement group of the account.
type Group struct {
	ID         string // "pg-…"; empty lets Add choose
	Name       string
	Strategy   string // cluster, partition or spread
	Partitions int    // of strategy partition
	Tags       map[string]string
}

// Instances are those in placement groups.
type Instances interface {
	// InPlacementGroup has the partition, "" for none, of each instance in a group
	// that has not ended.
	InPlacementGroup(id string) []string
}

// Service has the placement groups of the account.
type Service struct {
	account   *api.Account
	instances Instances
	groups    []*Group
}

// New has no groups.
func New(account *api.Account, instances Instances) *Service {
	return &Service{account: account, instances: instances}
}

// Clone copies deep enough that nothing later shows in it, with the instances of
// that time.
func (svc *Service) Clone(instances Instances) *Service {
	out := *svc
	out.instances, out.groups = instances, api.Clones(svc.groups)
	for _, g := range out.groups {
		g.Tags = maps.Clone(g.Tags)
	}
	return &out
}

// Operations are those of EC2 on placement groups.
func (svc *Service) Operations() map[string]api.Operation {
	return map[string]api.Operation{
		"DescribePlacementGroups": {Params: []string{"Filter.#.Name", "Filter.#.Value.#", "GroupId.#", "GroupName.#"}, Read: true, Run: svc.describeGroups},
		"CreatePlacementGroup": {Params: []string{"GroupName", "Strategy", "PartitionCount", "SpreadLevel",
			"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value"}, Run: svc.createGroup},
		"DeletePlacementGroup": {Params: []string{"GroupName"}, Run: svc.deleteGroup},
	}
}

// Add gives the account a placement group and returns its id.
func (svc *Service) Add(g Group) (string, error) {
	if g.Name == "" || !slices.Contains([]string{"cluster", "partition", "spread"}, g.Strategy) {
		return "", fmt.Errorf("adding placement group %q with strategy %q: it needs a name and one of cluster, partition, spread", g.Name, g.Strategy)
	}
	if g.ID == "" {
		g.ID = svc.account.NewID("pg")
	}
	g.Tags = api.WithTags(g.Tags)
	svc.groups = append(svc.groups, &g)
	return g.ID, nil
}

// Place is the group of a launch and the partition where the instance comes, ""
// for none.
func (svc *Service) Place(data query.Form) (id, name, partition string) {
	partition = data.Get("Placement.PartitionNumber")
	g := svc.Find(data.Get("Placement.GroupId"), data.Get("Placement.GroupName"))
	if g == nil {
		return "", "", partition
	}
	if partition == "" && g.Strategy == "partition" {
		partition = strconv.Itoa(svc.emptiestPartition(g))
	}
	return g.ID, g.Name, partition
}

// Check returns what is wrong with the placement group in the parameters of a launch.
func (svc *Service) Check(data query.Form) *api.Error {
	id, name := data.Get("Placement.GroupId"), data.Get("Placement.GroupName")
	g := svc.Find(id, name)
	switch n, given, err := data.Int("Placement.PartitionNumber"); {
	case id != "" && name != "":
		return api.NewError(http.StatusBadRequest, "InvalidParameterCombination", "The parameters GroupId and GroupName cannot be used together.")
	case g == nil && id+name != "":
		return api.NewError(http.StatusBadRequest, "InvalidPlacementGroup.Unknown", fmt.Sprintf("The Placement Group '%s' is unknown.", id+name))
	case given && (err != nil || g == nil || g.Strategy != "partition" || n < 1 || n > g.Partitions):
		return api.NewError(http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf("The partition number '%s' is not one of the placement group.", data.Get("Placement.PartitionNumber")))
	}
	return nil
}

// Find finds a placement group by what of both is given, nil if there
// is none.
func (svc *Service) Find(id, name string) *Group {
	for _, g := range svc.groups {
		if id != "" && g.ID == id || id == "" && name != "" && g.Name == name {
			return g
		}
	}
	return nil
}

// emptiestPartition is where EC2 puts an instance whose launch names no partition
// of its group, so that they are spread evenly.
func (svc *Service) emptiestPartition(g *Group) int {
	count := make([]int, max(g.Partitions, 1))
	for _, partition := range svc.instances.InPlacementGroup(g.ID) {
		if n, err := strconv.Atoi(partition); err == nil && n >= 1 && n <= len(count) {
			count[n-1]++
		}
	}
	return 1 + slices.Index(count, slices.Min(count))
}

func (svc *Service) describeGroups(in *api.Call) (any, error) {
	ids, names := in.Form.List("GroupId"), in.Form.List("GroupName")
	unknown := cmp.Or(ec2query.Missing(ids, func(id string) bool { return svc.Find(id, "") != nil }),
		ec2query.Missing(names, func(name string) bool { return svc.Find("", name) != nil }))
	if unknown != "" {
		return nil, api.Refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", unknown)
	}
	found, err := ec2query.Choose(in, svc.groups, ec2query.Attributes[*Group]{
		"state":      ec2query.One(func(*Group) string { return "available" }),
		"strategy":   ec2query.One(func(g *Group) string { return g.Strategy }),
		"group-name": ec2query.One(func(g *Group) string { return g.Name }),
	}, func(g *Group) map[string]string { return g.Tags })
	if err != nil {
		return nil, err
	}
	var rows []query.Element
	for _, g := range found {
		if len(ids) > 0 && !slices.Contains(ids, g.ID) || len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		rows = append(rows, query.Group("item", svc.groupElements(g)...))
	}
	return []query.Element{query.List("placementGroupSet", "item", rows)}, nil
}

// validName reports whether a group may have that name.
func validName(name string) bool {
	return len(name) <= 255 && !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII })
}

func (svc *Service) createGroup(in *api.Call) (any, error) {
	get := in.Form.Get
	g := &Group{Name: get("GroupName"), Strategy: cmp.Or(get("Strategy"), "cluster")}
	var err error
	if g.Tags, err = ec2query.TagsOnly(in.Form, "placement-group"); err != nil {
		return nil, err
	}
	n, given, err := in.Form.Int("PartitionCount")
	switch {
	case !validName(g.Name):
		return nil, api.Refuse("InvalidParameterValue", "The GroupName '%s' is not up to 255 ASCII characters.", g.Name)
	case g.Name == "":
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter GroupName.")
	case !slices.Contains([]string{"cluster", "partition", "spread"}, g.Strategy):
		return nil, api.Refuse("InvalidParameterValue", "Value '%s' for strategy is invalid.", g.Strategy)
	case given && (err != nil || g.Strategy != "partition" || n < 1 || n > 7):
		return nil, api.Refuse("InvalidParameterValue", "PartitionCount '%s' is not 1 to 7, or the strategy is not partition.", get("PartitionCount"))
	case cmp.Or(get("SpreadLevel"), "rack") != "rack":
		return nil, api.Refuse("InvalidParameterValue", "SpreadLevel '%s' is not emulated, only rack.", get("SpreadLevel"))
	case svc.Find("", g.Name) != nil:
		return nil, api.Refuse("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", g.Name)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	if g.Strategy == "partition" {
		g.Partitions = 2
		if given {
			g.Partitions = n
		}
	}
	g.ID = svc.account.NewID("pg")
	svc.groups = append(svc.groups, g)
	return []query.Element{query.Group("placementGroup", svc.groupElements(g)...)}, nil
}

func (svc *Service) groupElements(g *Group) []query.Element {
	nodes := []query.Element{query.Text("groupId", g.ID), query.Text("groupName", g.Name), query.Text("groupArn", svc.account.ARN("ec2", "placement-group/"+g.Name)),
		query.Text("state", "available"), query.Text("strategy", g.Strategy), ec2query.TagSet(g.Tags)}
	switch g.Strategy {
	case "partition":
		nodes = append(nodes, query.Text("partitionCount", strconv.Itoa(g.Partitions)))
	case "spread":
		nodes = append(nodes, query.Text("spreadLevel", "rack"))
	}
	return nodes
}

func (svc *Service) deleteGroup(in *api.Call) (any, error) {
	g := svc.Find("", in.Form.Get("GroupName"))
	switch {
	case g == nil:
		return nil, api.Refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", in.Form.Get("GroupName"))
	case len(svc.instances.InPlacementGroup(g.ID)) > 0:
		return nil, api.Refuse("InvalidPlacementGroup.InUse", "The placement group %s is in use and may not be deleted.", g.Name)
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	svc.groups = slices.DeleteFunc(svc.groups, func(o *Group) bool { return o == g })
	return []query.Element{query.Bool("return", true)}, nil
}
