package aws

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// rootDevice is the device name of an image's own volume.
const rootDevice = "/dev/xvda"

// imageGiB is the size of the volumes that an image brings.
const imageGiB = 20

// volume is an EBS volume.
type volume struct {
	id, device, instance string // instance is "" once it was detached
	zone                 catalog.Zone
	size                 int // GiB
	settings             query.Form
	ends                 bool // with its instance
	created              time.Time
	tags                 map[string]string
}

// netInterface is an elastic network interface.
type netInterface struct {
	id, instance, kind string
	subnet             string
	address, public    string // IPv4; an interface of EFA alone has none
	groups             []securityGroup
	settings           query.Form
	created            time.Time
	tags               map[string]string
}

// attachments are the EBS volumes and network interfaces of the account.
type attachments struct {
	volumes    []*volume
	interfaces []*netInterface
	public     int // public addresses that were ever given out
}

func (a attachments) clone() attachments {
	a.volumes, a.interfaces = api.Clones(a.volumes), api.Clones(a.interfaces)
	for _, v := range a.volumes {
		v.tags = maps.Clone(v.tags)
	}
	for _, n := range a.interfaces {
		n.tags = maps.Clone(n.tags)
	}
	return a
}

// partID names a part of an instance: its id follows from the instance's.
func partID(prefix, instance string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", prefix, instance, n))
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}

// volumesOf makes the volumes of an instance: those of its launch parameters, and
// the image's own unless that is among them.
func volumesOf(i *instance, zone catalog.Zone, data query.Form, tags map[string]string) []*volume {
	var out []*volume
	for _, m := range data.Each("BlockDeviceMapping") {
		v := &volume{device: m.Get("DeviceName"), size: imageGiB, settings: m.Sub("Ebs")}
		if size, given, err := m.Int("Ebs.VolumeSize"); given && err == nil {
			v.size = size
		}
		v.ends = m.Get("Ebs.DeleteOnTermination") == "true" || !m.Has("Ebs.DeleteOnTermination") && v.device == rootDevice
		out = append(out, v)
	}
	if !slices.ContainsFunc(out, func(v *volume) bool { return v.device == rootDevice }) {
		out = append([]*volume{{device: rootDevice, size: imageGiB, ends: true}}, out...)
	}
	for n, v := range out {
		v.id, v.instance, v.zone, v.created, v.tags = partID("vol", i.ID, n), i.ID, zone, i.Launched, maps.Clone(tags)
	}
	return out
}

// interfacesOf makes the network interfaces of an instance; there is always one.
func (st *state) interfacesOf(i *instance, s *subnet, data query.Form, tags map[string]string) []*netInterface {
	forms := data.Each("NetworkInterface")
	if len(forms) == 0 {
		forms = []query.Form{data.Only("SecurityGroupId")}
	}
	var out []*netInterface
	for n, f := range forms {
		next := &netInterface{id: partID("eni", i.ID, n), instance: i.ID, kind: cmp.Or(f.Get("InterfaceType"), "interface"), subnet: s.id,
			settings: f, created: i.Launched, tags: maps.Clone(tags), groups: st.network.named(f.List("SecurityGroupId"))}
		if next.kind != "efa-only" || n == 0 {
			next.address = s.take(addressesOf(f), st.addressed).String()
		}
		if wants := f.Get("AssociatePublicIpAddress"); n == 0 && (wants == "true" || wants == "" && s.mapsPublic && len(forms) == 1) {
			next.public = st.publicAddress()
		}
		out = append(out, next)
		st.interfaces = append(st.interfaces, next) // so that the next one gets another address
	}
	return out
}

// addressed tells whether an interface has that address.
func (st *state) addressed(a netip.Addr) bool {
	return slices.ContainsFunc(st.interfaces, func(n *netInterface) bool { return n.address == a.String() })
}

// publicAddress is the next one, of the range that is for tests of networks.
func (st *state) publicAddress() string {
	n := st.public % (1 << 17)
	st.public++
	return netip.AddrFrom4([4]byte{198, 18 + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

// publicName is the DNS name of a public address, "" for none.
func publicName(region, address string) string {
	if address == "" {
		return ""
	}
	b := netip.MustParseAddr(address).As4()
	zone := region + ".compute"
	if region == "us-east-1" {
		zone = "compute-1"
	}
	return fmt.Sprintf("ec2-%d-%d-%d-%d.%s.amazonaws.com", b[0], b[1], b[2], b[3], zone)
}

// addressesOf counts the IPv4 addresses that a network interface takes from its
// subnet: its own if it speaks IP, secondary ones, and sixteen for a prefix.
func addressesOf(f query.Form) int {
	n := 0
	if f.Get("InterfaceType") != "efa-only" {
		n = 1
	}
	secondary, _, _ := f.Int("SecondaryPrivateIpAddressCount") // checked with the template
	prefixes, _, _ := f.Int("Ipv4PrefixCount")
	return n + max(secondary, 0) + 16*max(prefixes, 0)
}

// detach ends what ends with an instance, and leaves the other volumes.
func (st *state) detach(i *instance) {
	st.interfaces = slices.DeleteFunc(st.interfaces, func(n *netInterface) bool { return n.instance == i.ID })
	st.volumes = slices.DeleteFunc(st.volumes, func(v *volume) bool { return v.instance == i.ID && v.ends })
	for _, v := range st.volumes {
		if v.instance == i.ID {
			v.instance = ""
		}
	}
}

// groupByInstance groups the volumes and interfaces by what they are attached to.
func (a attachments) groupByInstance() map[string]attachments {
	out := map[string]attachments{}
	for _, v := range a.volumes {
		on := out[v.instance]
		on.volumes = append(on.volumes, v)
		out[v.instance] = on
	}
	for _, n := range a.interfaces {
		on := out[n.instance]
		on.interfaces = append(on.interfaces, n)
		out[n.instance] = on
	}
	return out
}

// DiskGiB is the size of the instance's EBS volume at a device name such as
// "/dev/xvda"; 0 where its launch template sets none, so that the image's own
// size holds.
func (c *Cloud) DiskGiB(id, device string) int {
	c.account.Lock()
	defer c.account.Unlock()
	if i := c.st.instance(id); i != nil {
		for _, m := range i.data.Each("BlockDeviceMapping") {
			if size, _, err := m.Int("Ebs.VolumeSize"); err == nil && m.Get("DeviceName") == device {
				return size
			}
		}
	}
	return 0
}

// Template is what the instance's launch template said, by EC2's own names, as in
// "MetadataOptions.HttpTokens" or "BlockDeviceMapping.1.Ebs.VolumeSize"; nil where
// there is no such instance. User data is left out: see Instance.UserData.
func (c *Cloud) Template(id string) map[string]string {
	c.account.Lock()
	defer c.account.Unlock()
	i := c.st.instance(id)
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
