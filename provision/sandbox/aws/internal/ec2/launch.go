package ec2

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/templates"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/vpc"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
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
func (svc *Service) launch(data, over query.Form, capacityType string) (launch, error) {
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
	if l.kind, err = svc.offers.Type(name); err != nil {
		return l, err
	}
	zone := first(over.Get("AvailabilityZone"), data.Get("Placement.AvailabilityZone"))
	if z, ok := svc.VPC.SubnetZone(l.subnetID); ok {
		if zone != "" && zone != z.Name {
			return l, api.Refuse("InvalidParameterValue", "The availability zone '%s' is not that of subnet %s (%s).", zone, l.subnetID, z.Name)
		}
		l.zone = z
		return l, nil
	}
	z, ok := svc.offers.Zone(zone)
	if zone != "" && !ok {
		return l, api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
	}
	l.zone = z
	return l, nil
}

// launchable finds what is wrong with a launch before capacity is taken.
func (svc *Service) launchable(in *api.Call, l launch) *api.Error {
	bad := func(code, format string, args ...any) *api.Error {
		return api.NewError(http.StatusBadRequest, code, fmt.Sprintf(format, args...))
	}
	if _, known := svc.VPC.SubnetZone(l.subnetID); l.subnetID != "" && !known {
		return bad("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", l.subnetID)
	}
	if l.subnetID == "" && l.zone.Name == "" {
		return bad("MissingInput", "No subnets found for the default VPC: give a subnet or a zone.")
	}
	arch := svc.Images.Architecture(l.image)
	switch {
	case l.image == "":
		return bad("MissingParameter", "The request must contain the parameter ImageId")
	case arch == "":
		return bad("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", l.image)
	case !slices.Contains(l.kind.Processor.Architectures, arch):
		return bad("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI.",
			l.kind.Processor.Architectures[len(l.kind.Processor.Architectures)-1], arch)
	case !offerings.Sold(l.kind, l.capacityType):
		return bad("Unsupported", "%s", launchError("Unsupported", l.kind.Name, l.zone.Name))
	}
	for _, id := range securityGroups(l.data) {
		if !ec2query.IsID(id) {
			return bad("InvalidGroupId.Malformed", "Invalid id: \"%s\" (expecting \"sg-...\")", id)
		}
		if !svc.VPC.HasGroup(id) {
			return bad("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	if name := l.data.Get("IamInstanceProfile.Name"); name != "" && !svc.deps.Profiles.HasProfile(name, in.Now) {
		return bad("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
	}
	if failed := severalPublic(l.data); failed != nil {
		return failed
	}
	return svc.Placement.Check(l.data)
}

// severalPublic refuses a public address where a launch has several network interfaces.
func severalPublic(data query.Form) *api.Error {
	nics := data.Each("NetworkInterface")
	public := func(n query.Form) bool { return n.Get("AssociatePublicIpAddress") == "true" }
	if len(nics) < 2 || !slices.ContainsFunc(nics, public) {
		return nil
	}
	return api.NewError(http.StatusBadRequest, "InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces")
}

// securityGroups are those of the first network interface, or of the launch.
func securityGroups(data query.Form) []string {
	if nics := data.Each("NetworkInterface"); len(nics) > 0 {
		return nics[0].List("SecurityGroupId")
	}
	return data.List("SecurityGroupId")
}

// start launches one instance, or returns why there is no room for it.
func (svc *Service) start(in *api.Call, l launch, rate float64) (*instance, *api.Error) {
	subnet := cmp.Or(l.subnetID, svc.VPC.PublicSubnet(l.zone.Name))
	if free, code := svc.remaining(l.kind.Name, l.zone.Name, l.capacityType); free == 0 {
		return nil, api.NewError(http.StatusBadRequest, code, launchError(code, l.kind.Name, l.zone.Name))
	}
	if failed := svc.overQuota(l.kind, l.capacityType); failed != nil {
		return nil, failed
	}
	place := svc.placementOf(l.data)
	if svc.VPC.FreeAddresses(subnet) < place.addresses {
		return nil, api.NewError(http.StatusBadRequest, "InsufficientFreeAddressesInSubnet",
			fmt.Sprintf("There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", subnet))
	}
	reservation, failed := svc.Reservations.Reserve(reservations.Launch{Type: l.kind.Name, Zone: l.zone.Name, CapacityType: l.capacityType, Data: l.data}, in.Now)
	if failed != nil {
		return nil, failed
	}
	text, err := templates.UserData(l.data)
	if err != nil {
		var api *api.Error
		errors.As(err, &api)
		return nil, api
	}
	i := &instance{
		Instance: Instance{
			ID: svc.account.NewID("i"), Type: l.kind.Name, Zone: l.zone.Name, ZoneID: l.zone.ID, CapacityType: l.capacityType,
			Image: l.image, Launched: in.Now, Tags: svc.launchTags(in, l.data, "instance"), UserData: text,
		},
		number: svc.account.Made(), kind: l.kind, subnet: subnet, data: l.data, profile: l.data.Get("IamInstanceProfile.Name"), placement: place,
		purchase: purchase{rate, reservation, svc.launchTags(in, l.data, "spot-instances-request")},
	}
	i.groups, i.Address = svc.VPC.Attach(i.ID, i.Launched, subnet, l.data, svc.launchTags(in, l.data, "network-interface"))
	i.DNSName = svc.VPC.PrivateName(i.Address)
	svc.ebs.Attach(i.ID, i.Launched, l.zone, l.data, svc.launchTags(in, l.data, "volume"))
	in.Launched = append(in.Launched, i.ID)
	svc.begin(i)
	return i, nil
}

// launchTags are the tags for one kind of what a launch makes: the launch
// template's, with the request's over them.
func (svc *Service) launchTags(in *api.Call, data query.Form, kind string) map[string]string {
	out := ec2query.Specified(data, kind)
	maps.Copy(out, ec2query.Specified(in.Form, kind))
	return out
}

func (svc *Service) placementOf(data query.Form) instancePlacement {
	p := instancePlacement{
		tenancy:    cmp.Or(data.Get("Placement.Tenancy"), "default"),
		preference: cmp.Or(data.Get("CapacityReservationSpecification.CapacityReservationPreference"), "open"),
	}
	p.addresses = vpc.Addresses(data)
	p.group, p.groupName, p.partition = svc.Placement.Place(data)
	return p
}

// runParams are those of RunInstances with a launch template.
func runParams() []string {
	return append([]string{
		"ClientToken", "MinCount", "MaxCount", "InstanceType", "SubnetId", "ImageId",
		"LaunchTemplate.LaunchTemplateId", "LaunchTemplate.LaunchTemplateName", "LaunchTemplate.Version",
		"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value",
	}, templates.InterfaceParams()...)
}

// runInstances checks a launch; only dry runs are emulated, since fleets are how
// nodes are launched.
func (svc *Service) runInstances(in *api.Call) (any, error) {
	spec := in.Form.Sub("LaunchTemplate")
	t, err := svc.templates.Find(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName"), spec.Get("Version"))
	if err != nil {
		return nil, err
	}
	least, _, err1 := in.Form.Int("MinCount")
	most, _, err2 := in.Form.Int("MaxCount")
	if err1 != nil || err2 != nil || least < 1 || most < least {
		return nil, api.Refuse("InvalidParameterValue", "MinCount '%s' and MaxCount '%s' are no range from 1.", in.Form.Get("MinCount"), in.Form.Get("MaxCount"))
	}
	if err := templates.CheckTags(in.Form); err != nil {
		return nil, err
	}
	l, err := svc.launch(t.Data, in.Form, offerings.OnDemand)
	if err != nil {
		return nil, err
	}
	if nics := in.Form.Each("NetworkInterface"); len(nics) > 0 && nics[0].Get("SubnetId") != "" {
		l.subnetID = nics[0].Get("SubnetId")
		if z, ok := svc.VPC.SubnetZone(l.subnetID); ok {
			l.zone = z
		}
	}
	if failed := svc.launchable(in, l); failed != nil {
		return nil, failed
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	return nil, api.Refuse("UnsupportedOperation", "RunInstances is emulated for dry runs only; launch with CreateFleet.")
}

// overQuota is how EC2 refuses one more instance, if its vCPUs would exceed their
// quota.
func (svc *Service) overQuota(kind catalog.InstanceType, capacityType string) *api.Error {
	class, used := quotas.Class(kind.Name, capacityType), kind.VCPUs
	for _, i := range svc.instances {
		if i.State.alive() && quotas.Class(i.Type, i.CapacityType) == class {
			used += i.kind.VCPUs
		}
	}
	if !svc.deps.Quotas.Exceeds(class, used) {
		return nil
	}
	code := "VcpuLimitExceeded"
	if capacityType == offerings.Spot {
		code = "MaxSpotInstanceCountExceeded"
	}
	return api.NewError(http.StatusBadRequest, code, launchError(code, kind.Name, ""))
}
