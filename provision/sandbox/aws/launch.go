package aws

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/quotas"
)

// launch is what one instance is started with: a launch template's data, with
// what the request puts over it.
type launch struct {
	data         query.Form
	kind         catalog.InstanceType
	zone         catalog.Zone
	subnetID     string
	image        string
	capacityType string
}

// launch reads the parameters of a launch. An id that leads nowhere is left to
// launchable, because a fleet reports it beside its pool.
func (in *call) launch(data, over query.Form, capacityType string) (launch, error) {
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	l := launch{data: data, capacityType: capacityType,
		subnetID: first(over.Get("SubnetId"), data.Get("NetworkInterface.1.SubnetId")),
		image:    first(over.Get("ImageId"), data.Get("ImageId"))}
	name := first(over.Get("InstanceType"), data.Get("InstanceType"))
	if name == "" {
		return l, api.Refuse("MissingParameter", "The request must contain the parameter InstanceType")
	}
	var err error
	if l.kind, err = in.kindOf(name); err != nil {
		return l, err
	}
	zone := first(over.Get("AvailabilityZone"), data.Get("Placement.AvailabilityZone"))
	if s := in.st.network.subnet(l.subnetID); s != nil {
		if zone != "" && zone != s.zone.Name {
			return l, api.Refuse("InvalidParameterValue", "The availability zone '%s' is not that of subnet %s (%s).", zone, s.id, s.zone.Name)
		}
		l.zone = s.zone
		return l, nil
	}
	z, ok := in.cloud.offers.zone(zone)
	if zone != "" && !ok {
		return l, api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
	}
	l.zone = z
	return l, nil
}

// launchable finds what is wrong with a launch before capacity is asked for.
func (in *call) launchable(l launch) *api.Error {
	bad := func(code, format string, args ...any) *api.Error {
		return api.NewError(http.StatusBadRequest, code, fmt.Sprintf(format, args...))
	}
	if l.subnetID != "" && in.st.network.subnet(l.subnetID) == nil {
		return bad("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", l.subnetID)
	}
	if l.subnetID == "" && l.zone.Name == "" {
		return bad("MissingInput", "No subnets found for the default VPC: give a subnet or a zone.")
	}
	i := in.st.image(l.image)
	switch {
	case l.image == "":
		return bad("MissingParameter", "The request must contain the parameter ImageId")
	case i == nil:
		return bad("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", l.image)
	case !slices.Contains(l.kind.Processor.Architectures, i.arch):
		return bad("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI.",
			l.kind.Processor.Architectures[len(l.kind.Processor.Architectures)-1], i.arch)
	case !usage(l.kind, l.capacityType):
		return bad("Unsupported", "%s", refusal("Unsupported", l.kind.Name, l.zone.Name))
	}
	for _, id := range securityGroups(l.data) {
		if !idForm.MatchString(id) {
			return bad("InvalidGroupId.Malformed", "Invalid id: \"%s\" (expecting \"sg-...\")", id)
		}
		if _, ok := in.st.network.group(id); !ok {
			return bad("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	if name := l.data.Get("IamInstanceProfile.Name"); name != "" && !in.st.iam.hasProfile(name, in.Now) {
		return bad("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
	}
	return in.placeable(l)
}

// placeable finds what is wrong with the placement group of a launch.
func (in *call) placeable(l launch) *api.Error {
	id, name := l.data.Get("Placement.GroupId"), l.data.Get("Placement.GroupName")
	g := in.st.placementGroup(id, name)
	switch n, given, err := l.data.Int("Placement.PartitionNumber"); {
	case id != "" && name != "":
		return api.NewError(http.StatusBadRequest, "InvalidParameterCombination", "The parameters GroupId and GroupName cannot be used together.")
	case g == nil && id+name != "":
		return api.NewError(http.StatusBadRequest, "InvalidPlacementGroup.Unknown", fmt.Sprintf("The Placement Group '%s' is unknown.", id+name))
	case given && (err != nil || g == nil || g.Strategy != "partition" || n < 1 || n > g.Partitions):
		return api.NewError(http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf("The partition number '%s' is not one of the placement group.", l.data.Get("Placement.PartitionNumber")))
	}
	return nil
}

// securityGroups are those of the first network interface, or of the launch.
func securityGroups(data query.Form) []string {
	if nics := data.Each("NetworkInterface"); len(nics) > 0 {
		return nics[0].List("SecurityGroupId")
	}
	return data.List("SecurityGroupId")
}

// start launches one instance, or says why there is no room for it.
func (in *call) start(l launch, rate float64) (*instance, *api.Error) {
	st, c := in.st, in.cloud
	subnet := st.network.subnet(l.subnetID)
	if subnet == nil {
		subnet = st.network.inZone(l.zone.Name)
	}
	if room, code := c.remaining(l.kind.Name, l.zone.Name, l.capacityType); room == 0 {
		return nil, api.NewError(http.StatusBadRequest, code, refusal(code, l.kind.Name, l.zone.Name))
	}
	if failed := st.overQuota(l.kind, l.capacityType); failed != nil {
		return nil, failed
	}
	place := st.placementOf(l.data)
	if subnet.free < place.addresses {
		return nil, api.NewError(http.StatusBadRequest, "InsufficientFreeAddressesInSubnet",
			fmt.Sprintf("There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", subnet.id))
	}
	reservation, failed := in.reserve(l)
	if failed != nil {
		return nil, failed
	}
	text, err := userData(l.data)
	if err != nil {
		var api *api.Error
		errors.As(err, &api)
		return nil, api
	}
	i := &instance{
		Instance: Instance{
			ID: c.account.NewID("i"), Type: l.kind.Name, Zone: subnet.zone.Name, ZoneID: subnet.zone.ID, CapacityType: l.capacityType,
			Image: l.image, Launched: in.Now, Tags: in.launchTags(l.data, "instance"), UserData: text,
		},
		number: c.account.Made(), kind: l.kind, subnet: subnet.id, data: l.data, profile: l.data.Get("IamInstanceProfile.Name"), placement: place,
		purchase: purchase{rate, reservation, in.launchTags(l.data, "spot-instances-request")},
	}
	nics := st.interfacesOf(i, subnet, l.data, in.launchTags(l.data, "network-interface"))
	i.groups, i.Address, i.DNSName = nics[0].groups, nics[0].address, c.privateName(nics[0].address)
	st.volumes = append(st.volumes, volumesOf(i, subnet.zone, l.data, in.launchTags(l.data, "volume"))...)
	in.Launched = append(in.Launched, i.ID)
	c.begin(i)
	return i, nil
}

// launchTags are the tags for one kind of what a launch makes: the launch
// template's, with the request's over them.
func (in *call) launchTags(data query.Form, kind string) map[string]string {
	out := specified(data, kind)
	maps.Copy(out, specified(in.Form, kind))
	return out
}

// addresses counts the IPv4 addresses that an instance takes from its subnet.
func addresses(data query.Form) int {
	nics := data.Each("NetworkInterface")
	if len(nics) == 0 {
		return 1
	}
	sum := 0
	for _, n := range nics {
		sum += addressesOf(n)
	}
	return sum
}

func (st *state) placementOf(data query.Form) placement {
	p := placement{
		tenancy: cmp.Or(data.Get("Placement.Tenancy"), "default"), partition: data.Get("Placement.PartitionNumber"),
		preference: cmp.Or(data.Get("CapacityReservationSpecification.CapacityReservationPreference"), "open"),
	}
	p.addresses = addresses(data)
	if g := st.placementGroup(data.Get("Placement.GroupId"), data.Get("Placement.GroupName")); g != nil {
		p.group, p.groupName = g.ID, g.Name
		if p.partition == "" && g.Strategy == "partition" {
			p.partition = strconv.Itoa(st.emptiestPartition(g))
		}
	}
	return p
}

// placementGroup finds a placement group by what of both is given, nil if there
// is none.
func (st *state) placementGroup(id, name string) *PlacementGroup {
	for _, g := range st.groups {
		if id != "" && g.ID == id || id == "" && name != "" && g.Name == name {
			return g
		}
	}
	return nil
}

// emptiestPartition is where EC2 puts an instance whose launch names no partition
// of its group, so that they are spread evenly.
func (st *state) emptiestPartition(g *PlacementGroup) int {
	count := make([]int, max(g.Partitions, 1))
	for _, i := range st.instances {
		if n, err := strconv.Atoi(i.placement.partition); err == nil && i.placement.group == g.ID && i.State != Terminated && n >= 1 && n <= len(count) {
			count[n-1]++
		}
	}
	return 1 + slices.Index(count, slices.Min(count))
}

// runParams are those of RunInstances with a launch template.
func runParams() []string {
	return append([]string{
		"ClientToken", "MinCount", "MaxCount", "InstanceType", "SubnetId", "ImageId",
		"LaunchTemplate.LaunchTemplateId", "LaunchTemplate.LaunchTemplateName", "LaunchTemplate.Version",
		"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value",
	}, interfaceParams()...)
}

// runInstances checks a launch; only dry runs are played, since fleets are how
// nodes are launched.
func runInstances(in *call) (any, error) {
	spec := in.Form.Sub("LaunchTemplate")
	t, err := in.findTemplate(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName"), spec.Get("Version"))
	if err != nil {
		return nil, err
	}
	least, _, err1 := in.Form.Int("MinCount")
	most, _, err2 := in.Form.Int("MaxCount")
	if err1 != nil || err2 != nil || least < 1 || most < least {
		return nil, api.Refuse("InvalidParameterValue", "MinCount '%s' and MaxCount '%s' are no range from 1.", in.Form.Get("MinCount"), in.Form.Get("MaxCount"))
	}
	if err := checkTags(in.Form); err != nil {
		return nil, err
	}
	l, err := in.launch(t.data, in.Form, onDemand)
	if err != nil {
		return nil, err
	}
	if nics := in.Form.Each("NetworkInterface"); len(nics) > 0 && nics[0].Get("SubnetId") != "" {
		l.subnetID = nics[0].Get("SubnetId")
		if s := in.st.network.subnet(l.subnetID); s != nil {
			l.zone = s.zone
		}
	}
	if failed := in.launchable(l); failed != nil {
		return nil, failed
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	return nil, api.Refuse("UnsupportedOperation", "RunInstances is played for dry runs only; launch with CreateFleet.")
}

// overQuota is how EC2 refuses one more instance, if its vCPUs would exceed their
// quota.
func (st *state) overQuota(kind catalog.InstanceType, capacityType string) *api.Error {
	class, used := quotas.Class(kind.Name, capacityType), kind.VCPUs
	for _, i := range st.instances {
		if i.State.alive() && quotas.Class(i.Type, i.CapacityType) == class {
			used += i.kind.VCPUs
		}
	}
	if !st.quotas.Exceeds(class, used) {
		return nil
	}
	code := "VcpuLimitExceeded"
	if capacityType == spot {
		code = "MaxSpotInstanceCountExceeded"
	}
	return api.NewError(http.StatusBadRequest, code, refusal(code, kind.Name, ""))
}
