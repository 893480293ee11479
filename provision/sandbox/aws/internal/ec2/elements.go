package ec2

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ebs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) instanceElement(i *instance, disks []query.Element, nics []query.Element, public string) query.Element {
	var groups []query.Element
	for _, g := range i.groups {
		groups = append(groups, query.Group("item", query.Text("groupId", g.ID), query.Text("groupName", g.Name)))
	}
	monitoring := map[bool]string{true: "enabled", false: "disabled"}[i.data.Get("Monitoring.Enabled") == "true"]
	kids := []query.Element{
		query.Text("instanceId", i.ID), query.Text("imageId", i.Image), stateElement("instanceState", i.State),
		query.Text("privateDnsName", i.DNSName), query.Text("privateIpAddress", i.Address),
		query.Text("dnsName", svc.VPC.PublicName(public)), query.Opt("ipAddress", public),
		query.Text("instanceType", i.Type), query.Text("launchTime", ec2query.Stamp(i.Launched)), query.Int("amiLaunchIndex", 0), i.placement.element(i),
		query.Group("monitoring", query.Text("state", monitoring)),
		query.Text("subnetId", i.subnet), query.Text("vpcId", svc.VPC.ID()),
		query.Text("architecture", cmp.Or(svc.Images.Architecture(i.Image), "x86_64")), query.Text("virtualizationType", "hvm"),
		query.Text("hypervisor", "xen"), // for Nitro, too
		query.Text("rootDeviceType", "ebs"), query.Text("rootDeviceName", ebs.RootDevice), query.List("blockDeviceMapping", "item", disks),
		query.Text("platformDetails", "Linux/UNIX"), query.Bool("enaSupport", true), query.Bool("sourceDestCheck", true),
		query.Group("enclaveOptions", query.Bool("enabled", i.data.Get("EnclaveOptions.Enabled") == "true")),
		i.metadataOptions(), i.cpuOptions(),
		query.Opt("instanceLifecycle", lifecycle(i.CapacityType)), query.Opt("spotInstanceRequestId", i.spotRequest()),
		query.Opt("capacityReservationId", i.reservation),
		query.Group("capacityReservationSpecification", query.Text("capacityReservationPreference", i.placement.preference)),
		query.List("groupSet", "item", groups), query.List("networkInterfaceSet", "item", nics), ec2query.TagSet(i.Tags),
	}
	if i.profile != "" {
		kids = append(kids, query.Group("iamInstanceProfile", query.Text("arn", svc.account.GlobalARN("iam", "instance-profile/"+i.profile)), query.Text("id", "AIPA"+i.ID[3:])))
	}
	if !i.State.alive() {
		kids = append(kids, query.Group("stateReason",
			query.Text("code", i.termination.reason), query.Text("message", i.termination.reason+": the instance was ended")))
	}
	return query.Group("item", kids...)
}

// element shows where an instance is.
func (p instancePlacement) element(i *instance) query.Element {
	return query.Group("placement", query.Text("availabilityZone", i.Zone), query.Text("availabilityZoneId", i.ZoneID), query.Text("tenancy", p.tenancy),
		query.Opt("groupId", p.group), query.Text("groupName", p.groupName), query.Opt("partitionNumber", p.partition))
}

// metadataOptions are those of the launch, over EC2's defaults.
func (i *instance) metadataOptions() query.Element {
	set := func(name, otherwise string) string { return cmp.Or(i.data.Get("MetadataOptions."+name), otherwise) }
	return query.Group("metadataOptions", query.Text("state", "applied"), query.Text("httpTokens", set("HttpTokens", "optional")),
		query.Text("httpPutResponseHopLimit", set("HttpPutResponseHopLimit", "1")), query.Text("httpEndpoint", set("HttpEndpoint", "enabled")),
		query.Text("httpProtocolIpv6", set("HttpProtocolIpv6", "disabled")), query.Text("instanceMetadataTags", set("InstanceMetadataTags", "disabled")))
}

// cpuOptions shows the cores; bare metal has no options. The catalogue counts
// vCPUs only: two of them are a core but on Arm and, since its seventh
// generation, on AMD.
func (i *instance) cpuOptions() query.Element {
	if i.kind.BareMetal() {
		return query.Element{}
	}
	threads := 2
	family, _, _ := strings.Cut(i.Type, ".")
	amdOfOneThread := i.kind.Processor.Manufacturer == "AMD" && strings.ContainsAny(family, "789")
	if slices.Contains(i.kind.Processor.Architectures, "arm64") || amdOfOneThread || i.kind.VCPUs == 1 {
		threads = 1
	}
	return query.Group("cpuOptions", query.Int("coreCount", i.kind.VCPUs/threads), query.Int("threadsPerCore", threads),
		query.Opt("nestedVirtualization", i.data.Get("CpuOptions.NestedVirtualization")))
}

func stateElement(name string, s State) query.Element {
	return query.Group(name, query.Int("code", s.code()), query.Text("name", string(s)))
}

// spotRequests are the requests behind the spot instances that AWS still shows:
// of an instant fleet each has its own.
func (svc *Service) spotRequests() []*instance {
	return slices.DeleteFunc(slices.Clone(svc.instances), func(i *instance) bool { return i.CapacityType != offerings.Spot })
}

// spotState is where a spot request is in its life, and the code of its status.
func (i *instance) spotState() (state, status string) {
	switch {
	case i.State.alive():
		return "active", "fulfilled"
	case i.termination.reason == spotTermination:
		return "closed", "instance-terminated-by-price"
	}
	return "closed", "instance-terminated-by-user"
}

func (svc *Service) describeSpotRequests(in *api.Call) (any, error) {
	ids := in.Form.List("SpotInstanceRequestId")
	if err := ec2query.WellFormed("sir", ids); err != nil {
		return nil, err
	}
	all := svc.spotRequests()
	if id := ec2query.Missing(ids, func(id string) bool {
		return slices.ContainsFunc(all, func(i *instance) bool { return i.spotRequest() == id })
	}); id != "" {
		return nil, api.Refuse("InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '%s' does not exist", id)
	}
	found, err := ec2query.Choose(in, all, ec2query.Attributes[*instance]{
		"spot-instance-request-id":   ec2query.One((*instance).spotRequest),
		"instance-id":                ec2query.One(func(i *instance) string { return i.ID }),
		"state":                      ec2query.One(func(i *instance) string { s, _ := i.spotState(); return s }),
		"status-code":                ec2query.One(func(i *instance) string { _, s := i.spotState(); return s }),
		"type":                       ec2query.One(func(*instance) string { return "one-time" }),
		"launched-availability-zone": ec2query.One(func(i *instance) string { return i.Zone }),
		"launch.instance-type":       ec2query.One(func(i *instance) string { return i.Type }),
	}, func(i *instance) map[string]string { return i.spotTags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, i := range found {
		if len(ids) > 0 && !slices.Contains(ids, i.spotRequest()) {
			continue
		}
		state, status := i.spotState()
		at := i.Launched
		if state == "closed" {
			at = i.termination.at
		}
		rows = append(rows, api.NewRow(fmt.Sprintf("%012d", i.number), query.Group("item", query.Text("spotInstanceRequestId", i.spotRequest()),
			query.Text("instanceId", i.ID), query.Text("state", state), query.Text("type", "one-time"), query.Text("createTime", ec2query.Stamp(i.Launched)),
			query.Group("status", query.Text("code", status), query.Text("updateTime", ec2query.Stamp(at))), query.Text("productDescription", "Linux/UNIX"),
			query.Text("instanceInterruptionBehavior", "terminate"), query.Text("launchedAvailabilityZone", i.Zone), query.Text("launchedAvailabilityZoneId", i.ZoneID),
			query.Group("launchSpecification", query.Text("imageId", i.Image), query.Text("instanceType", i.Type), query.Text("subnetId", i.subnet)), ec2query.TagSet(i.spotTags))))
	}
	return ec2query.Page(in, "spotInstanceRequestSet", rows, 5, 1000)
}
