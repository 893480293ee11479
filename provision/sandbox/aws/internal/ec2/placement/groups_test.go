package placement_test

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/placement"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// placed are the partitions of instances, by the group in which they are.
type placed map[string][]string

func (p placed) InPlacementGroup(id string) []string { return p[id] }

// account has placement groups, with the client of its EC2.
type account struct {
	*placement.Service
	instances placed
	client    *ec2.Client
}

func newAccount() account {
	a, _ := ec2test.NewAccount()
	instances := placed{}
	svc := placement.New(a, instances)
	return account{svc, instances, ec2test.Client(a, svc.Operations())}
}

func (a account) add(t *testing.T, g placement.Group) string {
	t.Helper()
	id, err := a.Add(g)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (a account) groups(t *testing.T, in *ec2.DescribePlacementGroupsInput) []types.PlacementGroup {
	t.Helper()
	out, err := a.client.DescribePlacementGroups(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.PlacementGroups
}

func TestAGroupIsCreatedOrRefused(t *testing.T) {
	s, n := sdk.String, sdk.Int32
	for name, tt := range map[string]struct {
		in         ec2.CreatePlacementGroupInput
		want       string
		strategy   types.PlacementStrategy
		partitions int32
		level      types.SpreadLevel
	}{
		"a cluster":                           {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "cluster"}, strategy: "cluster"},
		"a spread":                            {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "spread"}, strategy: "spread", level: "rack"},
		"a spread over racks":                 {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "spread", SpreadLevel: "rack"}, strategy: "spread", level: "rack"},
		"a spread over hosts of an Outpost":   {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "spread", SpreadLevel: "host"}, want: "InvalidParameterValue"},
		"one partition":                       {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "partition", PartitionCount: n(1)}, strategy: "partition", partitions: 1},
		"seven partitions":                    {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "partition", PartitionCount: n(7)}, strategy: "partition", partitions: 7},
		"eight partitions":                    {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "partition", PartitionCount: n(8)}, want: "InvalidParameterValue"},
		"no partitions":                       {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "partition", PartitionCount: n(0)}, want: "InvalidParameterValue"},
		"partitions of a cluster":             {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "cluster", PartitionCount: n(2)}, want: "InvalidParameterValue"},
		"a strategy that there is not":        {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "loose"}, want: "InvalidParameterValue"},
		"without a name":                      {in: ec2.CreatePlacementGroupInput{Strategy: "cluster"}, want: "MissingParameter"},
		"a name of 255 characters":            {in: ec2.CreatePlacementGroupInput{GroupName: s(strings.Repeat("n", 255)), Strategy: "cluster"}, strategy: "cluster"},
		"a name of 256 characters":            {in: ec2.CreatePlacementGroupInput{GroupName: s(strings.Repeat("n", 256)), Strategy: "cluster"}, want: "InvalidParameterValue"},
		"a name beyond ASCII":                 {in: ec2.CreatePlacementGroupInput{GroupName: s("größe"), Strategy: "cluster"}, want: "InvalidParameterValue"},
		"a name that is there":                {in: ec2.CreatePlacementGroupInput{GroupName: s("there"), Strategy: "spread"}, want: "InvalidPlacementGroup.Duplicate"},
		"a dry run":                           {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "cluster", DryRun: sdk.Bool(true)}, want: "DryRunOperation"},
		"a dry run of a name that is there":   {in: ec2.CreatePlacementGroupInput{GroupName: s("there"), Strategy: "cluster", DryRun: sdk.Bool(true)}, want: "InvalidPlacementGroup.Duplicate"},
		"tags":                                {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "cluster", TagSpecifications: ec2test.Tagged("placement-group", "k", "v")}, strategy: "cluster"},
		"tags of an instance":                 {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "cluster", TagSpecifications: ec2test.Tagged("instance", "k", "v")}, want: "InvalidParameterValue"},
		"a parent, which the sandbox has not": {in: ec2.CreatePlacementGroupInput{GroupName: s("a"), Strategy: "cluster", LinkedGroupId: s("pg-1")}, want: "UnknownParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount()
			a.add(t, placement.Group{Name: "there", Strategy: "cluster"})
			out, err := a.client.CreatePlacementGroup(t.Context(), &tt.in)
			if got := ec2test.Code(out, err); got != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			got := a.groups(t, &ec2.DescribePlacementGroupsInput{Filters: ec2test.Filters("strategy", "*")})
			if tt.want != "" {
				if len(got) != 1 {
					t.Errorf("what was refused left %+v", got)
				}
				return
			}
			g := *out.PlacementGroup
			if g.Strategy != tt.strategy || sdk.ToInt32(g.PartitionCount) != tt.partitions || g.SpreadLevel != tt.level || g.State != "available" ||
				*g.GroupArn != "arn:aws:ec2:us-east-1:123456789012:placement-group/"+*tt.in.GroupName || len(got) != 2 {
				t.Errorf("it shows as %+v", g)
			}
		})
	}
}

func TestGroupsAreChosenByIDsNamesAndFilters(t *testing.T) {
	a := newAccount()
	one := a.add(t, placement.Group{Name: "one", Strategy: "cluster", Tags: map[string]string{"team": "ml"}})
	two := a.add(t, placement.Group{Name: "two", Strategy: "spread"})
	for name, tt := range map[string]struct {
		in   ec2.DescribePlacementGroupsInput
		want []string
		code string
	}{
		"all":                             {want: []string{"one", "two"}},
		"by id":                           {in: ec2.DescribePlacementGroupsInput{GroupIds: []string{two}}, want: []string{"two"}},
		"by name":                         {in: ec2.DescribePlacementGroupsInput{GroupNames: []string{"one"}}, want: []string{"one"}},
		"by strategy":                     {in: ec2.DescribePlacementGroupsInput{Filters: ec2test.Filters("strategy", "spread")}, want: []string{"two"}},
		"by state":                        {in: ec2.DescribePlacementGroupsInput{Filters: ec2test.Filters("state", "deleted")}},
		"by a filter of names":            {in: ec2.DescribePlacementGroupsInput{Filters: ec2test.Filters("group-name", "t*")}, want: []string{"two"}},
		"by a tag":                        {in: ec2.DescribePlacementGroupsInput{Filters: ec2test.Filters("tag:team", "ml")}, want: []string{"one"}},
		"by id and a filter that differs": {in: ec2.DescribePlacementGroupsInput{GroupIds: []string{one}, Filters: ec2test.Filters("strategy", "spread")}},
		"by an id that is not there":      {in: ec2.DescribePlacementGroupsInput{GroupIds: []string{one, "pg-0123456789abcdef0"}}, code: "InvalidPlacementGroup.Unknown"},
		"by a name that is not there":     {in: ec2.DescribePlacementGroupsInput{GroupNames: []string{"one", "none"}}, code: "InvalidPlacementGroup.Unknown"},
		"by an id as if it were a name":   {in: ec2.DescribePlacementGroupsInput{GroupNames: []string{one}}, code: "InvalidPlacementGroup.Unknown"},
		"by a name as if it were an id":   {in: ec2.DescribePlacementGroupsInput{GroupIds: []string{"one"}}, code: "InvalidPlacementGroup.Unknown"},
		"by a filter that there is not":   {in: ec2.DescribePlacementGroupsInput{Filters: ec2test.Filters("partition-count", "2")}, code: "InvalidParameterValue"},
	} {
		out, err := a.client.DescribePlacementGroups(t.Context(), &tt.in)
		var got []string
		if err == nil {
			for _, g := range out.PlacementGroups {
				got = append(got, *g.GroupName)
			}
		}
		if code := ec2test.Code(out, err); code != tt.code || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q with %q, want %q with %q", name, got, code, tt.want, tt.code)
		}
	}
}

func TestAGroupIsDeletedOnceItIsEmpty(t *testing.T) {
	a := newAccount()
	id := a.add(t, placement.Group{Name: "one", Strategy: "cluster"})
	try := func(when, name string, dry bool, want string) {
		t.Helper()
		if got := ec2test.Code(a.client.DeletePlacementGroup(t.Context(), &ec2.DeletePlacementGroupInput{GroupName: &name, DryRun: &dry})); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	a.instances[id] = []string{""}
	try("with an instance", "one", false, "InvalidPlacementGroup.InUse")
	try("with an instance, in a dry run", "one", true, "InvalidPlacementGroup.InUse")
	delete(a.instances, id)
	try("by its id", id, false, "InvalidPlacementGroup.Unknown")
	try("in a dry run", "one", true, "DryRunOperation")
	before := a.Clone(a.instances)
	a.Find(id, "").Tags["later"] = "yes"
	try("without an instance", "one", false, "")
	try("twice", "one", false, "InvalidPlacementGroup.Unknown")
	if a.Find(id, "") != nil || before.Find(id, "") == nil || len(before.Find(id, "").Tags) != 0 {
		t.Errorf("after its end it is %+v, in an older copy %+v", a.Find(id, ""), before.Find(id, ""))
	}
}

func TestALaunchIsPlacedOrRefused(t *testing.T) {
	a := newAccount()
	cluster := a.add(t, placement.Group{Name: "tight", Strategy: "cluster"})
	racks := a.add(t, placement.Group{Name: "racks", Strategy: "partition", Partitions: 3})
	for name, tt := range map[string]struct {
		data, want           string
		id, group, partition string
	}{
		"in no group":                                {"ImageId=ami-1", "", "", "", ""},
		"in a group by id":                           {"Placement.GroupId=" + cluster, "", cluster, "tight", ""},
		"in a group by name":                         {"Placement.GroupName=tight", "", cluster, "tight", ""},
		"in a partition":                             {"Placement.GroupName=racks&Placement.PartitionNumber=3", "", racks, "racks", "3"},
		"in the first of empty partitions":           {"Placement.GroupId=" + racks, "", racks, "racks", "1"},
		"in a partition beyond the last":             {"Placement.GroupName=racks&Placement.PartitionNumber=4", "InvalidParameterValue", racks, "racks", "4"},
		"in a partition before the first":            {"Placement.GroupName=racks&Placement.PartitionNumber=0", "InvalidParameterValue", racks, "racks", "0"},
		"in a partition that is no number":           {"Placement.GroupName=racks&Placement.PartitionNumber=two", "InvalidParameterValue", racks, "racks", "two"},
		"in a partition of a cluster":                {"Placement.GroupName=tight&Placement.PartitionNumber=1", "InvalidParameterValue", cluster, "tight", "1"},
		"in a partition of no group":                 {"Placement.PartitionNumber=1", "InvalidParameterValue", "", "", "1"},
		"in a group that is not there":               {"Placement.GroupName=none", "InvalidPlacementGroup.Unknown", "", "", ""},
		"in a group of an id that is not there":      {"Placement.GroupId=pg-1", "InvalidPlacementGroup.Unknown", "", "", ""},
		"in a group by an id that is its name":       {"Placement.GroupId=tight", "InvalidPlacementGroup.Unknown", "", "", ""},
		"in a group by both, as EC2 takes one":       {"Placement.GroupId=" + cluster + "&Placement.GroupName=tight", "InvalidParameterCombination", cluster, "tight", ""},
		"in a group by both, of which the id is not": {"Placement.GroupId=pg-1&Placement.GroupName=tight", "InvalidParameterCombination", "", "", ""},
		"in a group by both, of which one is not":    {"Placement.GroupId=" + cluster + "&Placement.GroupName=none", "InvalidParameterCombination", cluster, "tight", ""},
	} {
		form, err := query.Parse(tt.data)
		if err != nil {
			t.Fatal(err)
		}
		code := ""
		if refused := a.Check(form); refused != nil {
			code = refused.Code
		}
		id, group, partition := a.Place(form)
		if code != tt.want || id != tt.id || group != tt.group || partition != tt.partition {
			t.Errorf("%s: %q in %s (%s), partition %q", name, code, id, group, partition)
		}
	}
}

func TestInstancesAreSpreadOverPartitions(t *testing.T) {
	form, err := query.Parse("Placement.GroupName=racks")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		have []string
		want string
	}{
		"the first of those that are empty":     {[]string{"1"}, "2"},
		"the emptiest":                          {[]string{"1", "2", "2", "3"}, "1"},
		"the emptiest behind others":            {[]string{"1", "2"}, "3"},
		"the first where all have as many":      {[]string{"1", "2", "3"}, "1"},
		"instances outside of any do not count": {[]string{"", "9", "1"}, "2"},
	} {
		a := newAccount()
		a.instances[a.add(t, placement.Group{Name: "racks", Strategy: "partition", Partitions: 3})] = tt.have
		if _, _, got := a.Place(form); got != tt.want {
			t.Errorf("%s: partition %s, want %s", name, got, tt.want)
		}
	}
}

func TestAGroupIsAddedWithANameAndAStrategy(t *testing.T) {
	for name, tt := range map[string]struct {
		g  placement.Group
		ok bool
	}{
		"a cluster":                  {placement.Group{Name: "a", Strategy: "cluster"}, true},
		"one of an id":               {placement.Group{ID: "pg-mine", Name: "a", Strategy: "spread"}, true},
		"one without a name":         {placement.Group{Strategy: "cluster"}, false},
		"one without a strategy":     {placement.Group{Name: "a"}, false},
		"one of an unknown strategy": {placement.Group{Name: "a", Strategy: "Cluster"}, false},
	} {
		a := newAccount()
		id, err := a.Add(tt.g)
		if (err == nil) != tt.ok || (a.Find(id, "") != nil) != tt.ok || tt.g.ID != "" && id != tt.g.ID {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
}
