package ec2

import (
	"encoding/base64"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ebs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// describeInstanceAttribute shows one setting of an instance. User data is as it
// was launched with.
func (svc *Service) describeInstanceAttribute(in *api.Call) (any, error) {
	id := in.Form.Get("InstanceId")
	if err := ec2query.WellFormed("i", []string{id}); err != nil {
		return nil, err
	}
	i := svc.instance(id)
	if i == nil {
		return nil, api.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	var value string
	name := in.Form.Get("Attribute")
	switch name {
	case "instanceType":
		value = i.Type
	case "userData":
		value = base64.StdEncoding.EncodeToString([]byte(i.UserData))
	case "rootDeviceName":
		value = ebs.RootDevice
	case "instanceInitiatedShutdownBehavior":
		value = "stop"
	case "disableApiTermination", "disableApiStop":
		value = "false"
	case "ebsOptimized":
		value = strconv.FormatBool(i.kind.Storage.EBSOptimized == "default")
	case "sourceDestCheck":
		value = "true"
	default:
		return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter attribute is invalid or not emulated.", name)
	}
	return []query.Element{query.Text("instanceId", i.ID), query.Group(name, query.Opt("value", value))}, nil
}

// DiskGiB is the size of the instance's EBS volume at a device name such as
// "/dev/xvda"; 0 where its launch template sets none, so that the image's own
// size holds.
func (svc *Service) DiskGiB(id, device string) int {
	if i := svc.instance(id); i != nil {
		for _, m := range i.data.Each("BlockDeviceMapping") {
			if size, _, err := m.Int("Ebs.VolumeSize"); err == nil && m.Get("DeviceName") == device {
				return size
			}
		}
	}
	return 0
}

// Template has what the launch template of an instance holds, by EC2's own names, as in
// "MetadataOptions.HttpTokens" or "BlockDeviceMapping.1.Ebs.VolumeSize"; nil where
// there is no such instance. User data is left out: see Instance.UserData.
func (svc *Service) Template(id string) map[string]string {
	i := svc.instance(id)
	if i == nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range i.data.Names() {
		if name != "UserData" {
			out[name] = i.data.Get(name)
		}
	}
	return out
}
