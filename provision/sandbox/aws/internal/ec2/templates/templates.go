// Package templates are launch templates, of one version each: what nodes are
// launched with. Start with Service and Find.
package templates

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Template is a launch template with its only version.
type Template struct {
	ID, Name string
	Data     query.Form       // LaunchTemplateData
	request  ec2query.Request // that made it
	created  time.Time
	tags     map[string]string
}

// Service has the launch templates of the account.
type Service struct {
	account   *api.Account
	templates []*Template // by creation
}

// New has no templates.
func New(account *api.Account) *Service { return &Service{account: account} }

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.templates = api.Clones(svc.templates)
	for _, t := range out.templates {
		t.tags = maps.Clone(t.tags)
	}
	return &out
}

// Operations are those of EC2 on launch templates.
func (svc *Service) Operations() map[string]api.Operation {
	return map[string]api.Operation{
		"DescribeLaunchTemplates": {Params: []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken", "LaunchTemplateId.#", "LaunchTemplateName.#"},
			Read: true, Run: svc.describeTemplates},
		"CreateLaunchTemplate": {Params: templateParams(), Run: svc.createTemplate},
		"DeleteLaunchTemplate": {Params: []string{"LaunchTemplateId", "LaunchTemplateName"}, Run: svc.deleteTemplate},
	}
}

// Named is a template by what of both is given, nil if there is none.
func (svc *Service) Named(id, name string) *Template {
	if id == "" && name == "" {
		return nil
	}
	return svc.find(id, name)
}

// Tags are the live ones of a template, nil for an unknown id.
func (svc *Service) Tags(id string) map[string]string {
	for _, t := range svc.templates {
		if t.ID == id {
			return t.tags
		}
	}
	return nil
}

func (svc *Service) find(id, name string) *Template {
	for _, t := range svc.templates {
		if t.ID == id || t.Name == name {
			return t
		}
	}
	return nil
}

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
	for _, p := range InterfaceParams() {
		out = append(out, d+p)
	}
	return out
}

// InterfaceParams are those of one network interface, in a template or in
// RunInstances.
func InterfaceParams() []string {
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

func (svc *Service) createTemplate(in *api.Call) (any, error) {
	name, data := in.Form.Get("LaunchTemplateName"), in.Form.Sub("LaunchTemplateData")
	if !templateName.MatchString(name) {
		return nil, api.Refuse("InvalidLaunchTemplateName.MalformedException", "The launch template name '%s' is not 3 to 128 of the characters a-z A-Z 0-9 ( ) . - / _", name)
	}
	if _, err := UserData(data); err != nil {
		return nil, err
	}
	if err := CheckTags(data); err != nil {
		return nil, err
	}
	if err := wholeNumbers(data); err != nil {
		return nil, err
	}
	tags, err := ec2query.TagsOnly(in.Form, "launch-template")
	if err != nil {
		return nil, err
	}
	if t, again, err := ec2query.Repeated(in, svc.templates, func(t *Template) ec2query.Request { return t.request }); err != nil {
		return nil, err
	} else if again {
		return []query.Element{query.Group("launchTemplate", svc.templateElements(in, t)...)}, nil
	}
	if svc.find("", name) != nil {
		return nil, api.Refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	t := &Template{ID: svc.account.NewID("lt"), Name: name, request: ec2query.RequestOf(in), created: in.Now, Data: data, tags: tags}
	svc.templates = append(svc.templates, t)
	return []query.Element{query.Group("launchTemplate", svc.templateElements(in, t)...)}, nil
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

// UserData decodes what an instance of these launch parameters would get.
func UserData(data query.Form) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(data.Get("UserData"))
	if err != nil {
		return "", api.Refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(raw) > userDataLimit {
		return "", api.Refuse("InvalidUserData.Malformed", "User data is limited to %d bytes", userDataLimit)
	}
	return string(raw), nil
}

func (svc *Service) templateElements(in *api.Call, t *Template) []query.Element {
	return []query.Element{
		query.Text("launchTemplateId", t.ID), query.Text("launchTemplateName", t.Name),
		query.Text("createTime", ec2query.Stamp(t.created)), query.Text("createdBy", svc.account.Caller(in.Key)),
		query.Int("defaultVersionNumber", 1), query.Int("latestVersionNumber", 1), ec2query.TagSet(t.tags),
	}
}

func (svc *Service) describeTemplates(in *api.Call) (any, error) {
	ids, names := in.Form.List("LaunchTemplateId"), in.Form.List("LaunchTemplateName")
	for _, id := range ids {
		if svc.find(id, "") == nil {
			return nil, api.Refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
		}
	}
	for _, name := range names {
		if svc.find("", name) == nil {
			return nil, noTemplate(name)
		}
	}
	found, err := ec2query.Choose(in, svc.templates, ec2query.Attributes[*Template]{
		"launch-template-name": ec2query.One(func(t *Template) string { return t.Name }),
		"create-time":          ec2query.One(func(t *Template) string { return ec2query.Stamp(t.created) }),
	}, func(t *Template) map[string]string { return t.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, t := range found {
		if len(ids)+len(names) == 0 || slices.Contains(ids, t.ID) || slices.Contains(names, t.Name) {
			rows = append(rows, api.NewRow(t.Name, query.Group("item", svc.templateElements(in, t)...)))
		}
	}
	return ec2query.Page(in, "launchTemplates", rows, 1, 200)
}

func noTemplate(name string) error {
	return api.Refuse("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func (svc *Service) deleteTemplate(in *api.Call) (any, error) {
	id, name := in.Form.Get("LaunchTemplateId"), in.Form.Get("LaunchTemplateName")
	t, err := svc.Find(id, name, "")
	if err != nil {
		return nil, err
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	svc.templates = slices.DeleteFunc(svc.templates, func(o *Template) bool { return o == t })
	return []query.Element{query.Group("launchTemplate", svc.templateElements(in, t)...)}, nil
}

// Find resolves a reference by id or by name. There is one version of
// each template.
func (svc *Service) Find(id, name, version string) (*Template, error) {
	switch {
	case id == "" && name == "":
		return nil, api.Refuse("MissingParameter", "Either a launch template ID or a launch template name must be specified in the request.")
	case id != "" && name != "":
		return nil, api.Refuse("InvalidParameterCombination", "Only one of launch template ID and launch template name can be specified in the request.")
	}
	t := svc.find(id, name)
	switch {
	case t == nil && id != "":
		return nil, api.Refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	case t == nil:
		return nil, noTemplate(name)
	case version != "" && version != "$Latest" && version != "$Default" && version != "1":
		return nil, api.Refuse("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s of %s.", version, t.Name)
	}
	return t, nil
}

// CheckTags refuses a TagSpecification that no launch can have; also are the types of
// resources that a request makes beside what is launched.
func CheckTags(f query.Form, also ...string) error {
	kinds := append([]string{"instance", "volume", "network-interface", "spot-instances-request"}, also...)
	for _, s := range f.Each("TagSpecification") {
		if _, err := ec2query.ReadTags(s.Each("Tag")); err != nil {
			return err
		}
		if kind := s.Get("ResourceType"); !slices.Contains(kinds, kind) {
			return api.Refuse("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
	}
	return nil
}
