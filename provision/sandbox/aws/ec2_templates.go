package aws

import (
	"encoding/base64"
	"regexp"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// userDataLimit is EC2's, on the decoded bytes.
const userDataLimit = 16 << 10

// templateParams is what a launch template may hold here: what a provisioner
// of nodes sets. Whatever else EC2 would take is refused by name.
func templateParams() []string {
	const d = "LaunchTemplateData."
	out := []string{"ClientToken", "LaunchTemplateName",
		"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value"}
	for _, p := range []string{
		"ImageId", "InstanceType", "UserData", "SecurityGroupId.#",
		"IamInstanceProfile.Name", "Monitoring.Enabled", "EnclaveOptions.Enabled", "CpuOptions.NestedVirtualization",
		"BlockDeviceMapping.#.DeviceName", "BlockDeviceMapping.#.Ebs.DeleteOnTermination", "BlockDeviceMapping.#.Ebs.Encrypted",
		"BlockDeviceMapping.#.Ebs.Iops", "BlockDeviceMapping.#.Ebs.KmsKeyId", "BlockDeviceMapping.#.Ebs.SnapshotId",
		"BlockDeviceMapping.#.Ebs.Throughput", "BlockDeviceMapping.#.Ebs.VolumeInitializationRate",
		"BlockDeviceMapping.#.Ebs.VolumeSize", "BlockDeviceMapping.#.Ebs.VolumeType",
		"MetadataOptions.HttpEndpoint", "MetadataOptions.HttpProtocolIpv6", "MetadataOptions.HttpPutResponseHopLimit",
		"MetadataOptions.HttpTokens", "MetadataOptions.InstanceMetadataTags",
		"CapacityReservationSpecification.CapacityReservationPreference",
		"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
		"InstanceMarketOptions.MarketType",
		"Placement.Tenancy", "Placement.GroupId", "Placement.GroupName", "Placement.PartitionNumber", "Placement.AvailabilityZone",
		"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value",
	} {
		out = append(out, d+p)
	}
	for _, p := range interfaceParams() {
		out = append(out, d+p)
	}
	return out
}

// interfaceParams are those of one network interface, in a template or in
// RunInstances.
func interfaceParams() []string {
	var out []string
	for _, p := range []string{
		"AssociatePublicIpAddress", "DeviceIndex", "NetworkCardIndex", "InterfaceType", "SubnetId", "SecurityGroupId.#",
		"PrimaryIpv6", "Ipv4PrefixCount", "Ipv6AddressCount", "Ipv6PrefixCount", "SecondaryPrivateIpAddressCount",
		"ConnectionTrackingSpecification.TcpEstablishedTimeout", "ConnectionTrackingSpecification.UdpStreamTimeout",
		"ConnectionTrackingSpecification.UdpTimeout",
	} {
		out = append(out, "NetworkInterface.#."+p)
	}
	return out
}

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

func createTemplate(in *call) (any, error) {
	name, data := in.Form.Get("LaunchTemplateName"), in.Form.Sub("LaunchTemplateData")
	if !templateName.MatchString(name) {
		return nil, api.Refuse("InvalidLaunchTemplateName.MalformedException", "The launch template name '%s' is not 3 to 128 of the characters a-z A-Z 0-9 ( ) . - / _", name)
	}
	if _, err := userData(data); err != nil {
		return nil, err
	}
	if err := checkTags(data); err != nil {
		return nil, err
	}
	if err := wholeNumbers(data); err != nil {
		return nil, err
	}
	tags, err := tagsOnly(in.Form, "launch-template")
	if err != nil {
		return nil, err
	}
	token := in.Form.Get("ClientToken")
	if t := in.st.template("", name); t != nil && token != "" && t.token == token {
		return []query.Element{query.Group("launchTemplate", in.templateElements(t)...)}, nil // a repeated request
	} else if t != nil {
		return nil, api.Refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	t := &template{id: in.cloud.account.NewID("lt"), name: name, token: token, created: in.Now, data: data, tags: tags}
	in.st.templates = append(in.st.templates, t)
	return []query.Element{query.Group("launchTemplate", in.templateElements(t)...)}, nil
}

// wholeNumbers checks the numbers that a launch goes by.
func wholeNumbers(data query.Form) error {
	for _, n := range data.Each("NetworkInterface") {
		for _, name := range []string{"SecondaryPrivateIpAddressCount", "Ipv4PrefixCount"} {
			if v, _, err := n.Int(name); err != nil || v < 0 {
				return api.Refuse("InvalidParameterValue", "The %s of a network interface, '%s', is not a number of zero or more.", name, n.Get(name))
			}
		}
	}
	return nil
}

// userData decodes what an instance of these launch parameters would get.
func userData(data query.Form) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(data.Get("UserData"))
	if err != nil {
		return "", api.Refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(raw) > userDataLimit {
		return "", api.Refuse("InvalidUserData.Malformed", "User data is limited to %d bytes", userDataLimit)
	}
	return string(raw), nil
}

func (in *call) templateElements(t *template) []query.Element {
	return []query.Element{
		query.Text("launchTemplateId", t.id), query.Text("launchTemplateName", t.name),
		query.Text("createTime", stamp(t.created)), query.Text("createdBy", in.cloud.account.Caller(in.Key)),
		query.Int("defaultVersionNumber", 1), query.Int("latestVersionNumber", 1), tagSet(t.tags),
	}
}

func describeTemplates(in *call) (any, error) {
	ids, names := in.Form.List("LaunchTemplateId"), in.Form.List("LaunchTemplateName")
	for _, id := range ids {
		if in.st.template(id, "") == nil {
			return nil, api.Refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
		}
	}
	for _, name := range names {
		if in.st.template("", name) == nil {
			return nil, noTemplate(name)
		}
	}
	found, err := choose(in, in.st.templates, attributes[*template]{
		"launch-template-name": one(func(t *template) string { return t.name }),
		"create-time":          one(func(t *template) string { return stamp(t.created) }),
	}, func(t *template) map[string]string { return t.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, t := range found {
		if len(ids)+len(names) == 0 || slices.Contains(ids, t.id) || slices.Contains(names, t.name) {
			rows = append(rows, api.NewRow(t.name, query.Group("item", in.templateElements(t)...)))
		}
	}
	return in.page("launchTemplates", rows, pageLimits{1, 200})
}

func noTemplate(name string) error {
	return api.Refuse("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func deleteTemplate(in *call) (any, error) {
	id, name := in.Form.Get("LaunchTemplateId"), in.Form.Get("LaunchTemplateName")
	t, err := in.findTemplate(id, name, "")
	if err != nil {
		return nil, err
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	in.st.templates = slices.DeleteFunc(in.st.templates, func(o *template) bool { return o == t })
	return []query.Element{query.Group("launchTemplate", in.templateElements(t)...)}, nil
}

// findTemplate resolves a reference by id or by name. There is one version of
// each template.
func (in *call) findTemplate(id, name, version string) (*template, error) {
	switch {
	case id == "" && name == "":
		return nil, api.Refuse("MissingParameter", "Either a launch template ID or a launch template name must be specified in the request.")
	case id != "" && name != "":
		return nil, api.Refuse("InvalidParameterCombination", "Only one of launch template ID and launch template name can be specified in the request.")
	}
	t := in.st.template(id, name)
	switch {
	case t == nil && id != "":
		return nil, api.Refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	case t == nil:
		return nil, noTemplate(name)
	case version != "" && version != "$Latest" && version != "$Default" && version != "1":
		return nil, api.Refuse("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s of %s.", version, t.name)
	}
	return t, nil
}
