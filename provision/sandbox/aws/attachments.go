package aws

import (
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// attachments are what a launch template plugs into an instance.
type attachments struct {
	interfaces []string       // interface types, the primary first
	disks      map[string]int // EBS volumes by device name, in GiB
	template   query.Form     // all of it
}

func attachmentsOf(data query.Form) attachments {
	a := attachments{interfaces: interfaces(data), disks: map[string]int{}, template: data}
	for _, m := range data.Each("BlockDeviceMapping") {
		if size, ok, err := m.Int("Ebs.VolumeSize"); ok && err == nil {
			a.disks[m.Get("DeviceName")] = size
		}
	}
	return a
}

// DiskGiB is the size of the instance's EBS volume at a device name such as
// "/dev/xvda"; 0 where its launch template sets none, so that the image's own
// size holds.
func (c *Cloud) DiskGiB(id, device string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.st.instances {
		if i.ID == id {
			return i.attached.disks[device]
		}
	}
	return 0
}

// Template is what the instance's launch template said, by EC2's own names, as in
// "MetadataOptions.HttpTokens" or "BlockDeviceMapping.1.Ebs.VolumeSize"; nil where
// there is no such instance. User data is left out: see Instance.UserData.
func (c *Cloud) Template(id string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.st.instance(id)
	if i == nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range i.attached.template.Names() {
		if name != "UserData" {
			out[name] = i.attached.template.Get(name)
		}
	}
	return out
}
