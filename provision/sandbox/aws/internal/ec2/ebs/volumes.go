// Package ebs are the EBS volumes of instances. None is made without an instance,
// and there are no snapshots. Start with Service.
package ebs

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// RootDevice is the device name of an image's own volume.
const RootDevice = "/dev/xvda"

// imageGiB is the size of the volumes that an image brings.
const imageGiB = 20

// Service has the volumes of the account.
type Service struct {
	account *api.Account
	volumes []*volume
}

// New has no volumes.
func New(account *api.Account) *Service { return &Service{account: account} }

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.volumes = api.Clones(svc.volumes)
	for _, v := range out.volumes {
		v.tags = maps.Clone(v.tags)
	}
	return &out
}

// Operations are those of EC2 on volumes.
func (svc *Service) Operations() map[string]api.Operation {
	return map[string]api.Operation{
		"DescribeVolumes": {Params: []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken", "VolumeId.#"}, Read: true, Run: svc.describeVolumes},
	}
}

// Attach makes the volumes of an instance that is launched.
func (svc *Service) Attach(instance string, launched time.Time, zone catalog.Zone, data query.Form, tags map[string]string) {
	svc.volumes = append(svc.volumes, volumesOf(instance, launched, zone, data, tags)...)
}

// Detach ends what ends with an instance, and leaves its other volumes.
func (svc *Service) Detach(instance string) {
	svc.volumes = slices.DeleteFunc(svc.volumes, func(v *volume) bool { return v.instance == instance && v.ends })
	for _, v := range svc.volumes {
		if v.instance == instance {
			v.instance = ""
		}
	}
}

// ByInstance shows the volumes of instances as DescribeInstances does.
func (svc *Service) ByInstance() func(instance string) []query.Element {
	all := map[string][]*volume{}
	for _, v := range svc.volumes {
		all[v.instance] = append(all[v.instance], v)
	}
	return func(instance string) (elements []query.Element) {
		for _, v := range all[instance] {
			elements = append(elements, query.Group("item", query.Text("deviceName", v.device), query.Group("ebs", query.Text("volumeId", v.id),
				query.Text("status", "attached"), query.Text("attachTime", ec2query.Stamp(v.created)), query.Bool("deleteOnTermination", v.ends))))
		}
		return elements
	}
}

// Tags are the live ones of a volume, nil for an unknown id.
func (svc *Service) Tags(id string) map[string]string {
	if v := svc.find(id); v != nil {
		return v.tags
	}
	return nil
}

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

func (v *volume) state() string {
	if v.instance == "" {
		return "available"
	}
	return "in-use"
}

func (v *volume) kind() string { return cmp.Or(v.settings.Get("VolumeType"), "gp2") }

// performance are operations and MiB per second, where the type has them.
func (v *volume) performance() (iops, throughput string) {
	switch v.kind() {
	case "gp3":
		return cmp.Or(v.settings.Get("Iops"), "3000"), cmp.Or(v.settings.Get("Throughput"), "125")
	case "gp2":
		return strconv.Itoa(min(max(3*v.size, 100), 16000)), ""
	}
	return v.settings.Get("Iops"), ""
}

// volumesOf makes the volumes of an instance: those of its launch parameters, and
// the image's own unless that is among them.
func volumesOf(instance string, launched time.Time, zone catalog.Zone, data query.Form, tags map[string]string) []*volume {
	var out []*volume
	for _, m := range data.Each("BlockDeviceMapping") {
		v := &volume{device: m.Get("DeviceName"), size: imageGiB, settings: m.Sub("Ebs")}
		if size, given, err := m.Int("Ebs.VolumeSize"); given && err == nil {
			v.size = size
		}
		v.ends = m.Get("Ebs.DeleteOnTermination") == "true" || !m.Has("Ebs.DeleteOnTermination") && v.device == RootDevice
		out = append(out, v)
	}
	if !slices.ContainsFunc(out, func(v *volume) bool { return v.device == RootDevice }) {
		out = append([]*volume{{device: RootDevice, size: imageGiB, ends: true}}, out...)
	}
	for n, v := range out {
		v.id, v.instance, v.zone, v.created, v.tags = ec2query.PartID("vol", instance, n), instance, zone, launched, maps.Clone(tags)
	}
	return out
}

func volumeElement(v *volume) query.Element {
	var attached []query.Element
	if v.instance != "" {
		attached = append(attached, query.Group("item", query.Text("volumeId", v.id), query.Text("instanceId", v.instance), query.Text("device", v.device),
			query.Text("status", "attached"), query.Text("attachTime", ec2query.Stamp(v.created)), query.Bool("deleteOnTermination", v.ends)))
	}
	iops, throughput := v.performance()
	return query.Group("item", query.Text("volumeId", v.id), query.Int("size", v.size), query.Text("snapshotId", v.settings.Get("SnapshotId")),
		query.Text("availabilityZone", v.zone.Name), query.Text("availabilityZoneId", v.zone.ID), query.Text("status", v.state()), query.Text("createTime", ec2query.Stamp(v.created)),
		query.List("attachmentSet", "item", attached), query.Text("volumeType", v.kind()), query.Opt("iops", iops), query.Opt("throughput", throughput),
		query.Opt("volumeInitializationRate", v.settings.Get("VolumeInitializationRate")),
		query.Bool("encrypted", v.settings.Get("Encrypted") == "true"), query.Opt("kmsKeyId", v.settings.Get("KmsKeyId")),
		query.Bool("multiAttachEnabled", false), ec2query.TagSet(v.tags))
}

// attached is an attribute of an attachment; a volume without one has none.
func attached(get func(*volume) string) func(*volume) []string {
	return func(v *volume) []string {
		if v.instance == "" {
			return nil
		}
		return []string{get(v)}
	}
}

func (svc *Service) describeVolumes(in *api.Call) (any, error) {
	ids := in.Form.List("VolumeId")
	if err := ec2query.WellFormed("vol", ids); err != nil {
		return nil, err
	}
	if id := ec2query.Missing(ids, func(id string) bool { return svc.find(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
	}
	found, err := ec2query.Choose(in, svc.volumes, ec2query.Attributes[*volume]{
		"volume-id":              ec2query.One(func(v *volume) string { return v.id }),
		"status":                 ec2query.One((*volume).state),
		"volume-type":            ec2query.One((*volume).kind),
		"size":                   ec2query.One(func(v *volume) string { return strconv.Itoa(v.size) }),
		"availability-zone":      ec2query.One(func(v *volume) string { return v.zone.Name }),
		"availability-zone-id":   ec2query.One(func(v *volume) string { return v.zone.ID }),
		"attachment.instance-id": attached(func(v *volume) string { return v.instance }),
		"attachment.device":      attached(func(v *volume) string { return v.device }),
		"encrypted":              ec2query.One(func(v *volume) string { return strconv.FormatBool(v.settings.Get("Encrypted") == "true") }),
		"snapshot-id":            ec2query.One(func(v *volume) string { return v.settings.Get("SnapshotId") }),
	}, func(v *volume) map[string]string { return v.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, v := range found {
		if len(ids) == 0 || slices.Contains(ids, v.id) {
			rows = append(rows, api.NewRow(v.id, volumeElement(v)))
		}
	}
	return ec2query.Page(in, "volumeSet", rows, 5, 1000)
}

func (svc *Service) find(id string) *volume {
	for _, v := range svc.volumes {
		if v.id == id {
			return v
		}
	}
	return nil
}
