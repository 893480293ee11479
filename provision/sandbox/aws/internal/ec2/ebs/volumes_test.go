package ebs_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ebs"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

const (
	first  = "i-00000000000000001"
	second = "i-00000000000000002"
	root   = "BlockDeviceMapping.1.DeviceName=/dev/xvda"
	data   = "BlockDeviceMapping.1.DeviceName=/dev/xvdb"
)

// account has volumes, with the clock and the client of its EC2.
type account struct {
	*ebs.Service
	clock  *ec2test.Clock
	client *ec2.Client
}

func newAccount() account {
	a, clock := ec2test.NewAccount()
	svc := ebs.New(a)
	return account{svc, clock, ec2test.Client(a, svc.Operations())}
}

// launch attaches the volumes of an instance with those launch parameters.
func (a account) launch(t *testing.T, instance, zone, params string) {
	t.Helper()
	form, err := query.Parse(params)
	if err != nil {
		t.Fatal(err)
	}
	a.Attach(instance, a.clock.Now(), catalog.Zone{Name: zone, ID: "id-of-" + zone}, form, map[string]string{"instance": instance})
}

func (a account) volumes(t *testing.T, in *ec2.DescribeVolumesInput) []types.Volume {
	t.Helper()
	out, err := a.client.DescribeVolumes(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Volumes
}

// byDevice are the volumes that are attached, by their device names.
func (a account) byDevice(t *testing.T) map[string]types.Volume {
	t.Helper()
	out := map[string]types.Volume{}
	for _, v := range a.volumes(t, &ec2.DescribeVolumesInput{}) {
		out[*v.Attachments[0].Device] = v
	}
	return out
}

// size is what a volume is and does, as its type has it.
type size struct {
	Type       types.VolumeType
	GiB        int32
	IOPS, MiBs int32
	Encrypted  bool
}

// EC2's reference: gp2 has three operations for each GiB, of 100 to 16,000; gp3 has 3,000
// and 125 MiB/s unless more is set; the other types have no throughput of their own.
func TestAVolumeIsOfTheSizeAndSpeedOfItsType(t *testing.T) {
	const ebs = "&BlockDeviceMapping.1.Ebs."
	for name, tt := range map[string]struct {
		params string
		want   size
	}{
		"the image's own":                          {"", size{"gp2", 20, 100, 0, false}},
		"one without settings":                     {root, size{"gp2", 20, 100, 0, false}},
		"gp2 of a size below the least":            {root + ebs + "VolumeSize=33", size{"gp2", 33, 100, 0, false}},
		"gp2 of a size above the least":            {root + ebs + "VolumeSize=34", size{"gp2", 34, 102, 0, false}},
		"gp2 of a size at the most":                {root + ebs + "VolumeType=gp2" + ebs + "VolumeSize=6000", size{"gp2", 6000, 16000, 0, false}},
		"gp2 takes no operations that are set":     {root + ebs + "VolumeType=gp2" + ebs + "VolumeSize=100" + ebs + "Iops=9000", size{"gp2", 100, 300, 0, false}},
		"gp3 by default":                           {root + ebs + "VolumeType=gp3" + ebs + "VolumeSize=100", size{"gp3", 100, 3000, 125, false}},
		"gp3 with more of both":                    {root + ebs + "VolumeType=gp3" + ebs + "VolumeSize=100" + ebs + "Iops=4000" + ebs + "Throughput=500", size{"gp3", 100, 4000, 500, false}},
		"io2 with its operations":                  {root + ebs + "VolumeType=io2" + ebs + "VolumeSize=100" + ebs + "Iops=5000", size{"io2", 100, 5000, 0, false}},
		"st1, which has neither":                   {root + ebs + "VolumeType=st1" + ebs + "VolumeSize=500", size{"st1", 500, 0, 0, false}},
		"one that is encrypted":                    {root + ebs + "Encrypted=true" + ebs + "KmsKeyId=key", size{"gp2", 20, 100, 0, true}},
		"one that is not, by false":                {root + ebs + "Encrypted=false", size{"gp2", 20, 100, 0, false}},
		"the image's own beside another":           {data + ebs + "VolumeType=gp3" + ebs + "VolumeSize=100", size{"gp2", 20, 100, 0, false}},
		"one whose mapping comes behind another's": {data + "&BlockDeviceMapping.2.DeviceName=/dev/xvda&BlockDeviceMapping.2.Ebs.VolumeSize=50", size{"gp2", 50, 150, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount()
			a.launch(t, first, "us-east-1a", tt.params)
			v, there := a.byDevice(t)["/dev/xvda"]
			if !there {
				t.Fatal("there is no root volume")
			}
			got := size{v.VolumeType, *v.Size, sdk.ToInt32(v.Iops), sdk.ToInt32(v.Throughput), *v.Encrypted}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("root volume (-want +got):\n%s", diff)
			}
			if *v.Encrypted != (v.KmsKeyId != nil) {
				t.Errorf("its key is %s", sdk.ToString(v.KmsKeyId))
			}
		})
	}
}

func TestAVolumeEndsWithItsInstanceOrBecomesAvailable(t *testing.T) {
	for name, tt := range map[string]struct {
		params string
		ends   bool
		left   []string // devices of what is left; the root volume goes unless it is set to stay
	}{
		"the image's own":             {"", true, nil},
		"the root volume":             {root, true, nil},
		"the root volume set to end":  {root + "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true", true, nil},
		"the root volume set to stay": {root + "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=false", false, []string{"available"}},
		"another one":                 {data, false, []string{"available"}},
		"another one set to end":      {data + "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true", true, nil},
		"another one set to stay":     {data + "&BlockDeviceMapping.1.Ebs.DeleteOnTermination=false", false, []string{"available"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount()
			a.launch(t, first, "us-east-1a", tt.params)
			a.launch(t, second, "us-east-1a", "")
			device := "/dev/xvda"
			if strings.HasPrefix(tt.params, data) {
				device = "/dev/xvdb"
			}
			var at *types.VolumeAttachment
			for _, v := range a.volumes(t, &ec2.DescribeVolumesInput{Filters: ec2test.Filters("attachment.instance-id", first, "attachment.device", device)}) {
				at = &v.Attachments[0]
			}
			if at == nil || *at.DeleteOnTermination != tt.ends || at.State != "attached" || !at.AttachTime.Equal(a.clock.Now()) {
				t.Fatalf("attached as %+v", at)
			}
			if got := len(a.ByInstance()(first)); got != len(a.volumes(t, &ec2.DescribeVolumesInput{Filters: ec2test.Filters("attachment.instance-id", first)})) {
				t.Errorf("the instance shows %d volumes", got)
			}
			before := a.Clone()
			a.Detach(first)
			var left []string
			for _, v := range a.volumes(t, &ec2.DescribeVolumesInput{Filters: ec2test.Filters("tag:instance", first)}) {
				left = append(left, string(v.State))
				if len(v.Attachments) != 0 || before.Tags(*v.VolumeId) == nil {
					t.Errorf("without its instance it is attached to %+v", v.Attachments)
				}
			}
			if !slices.Equal(left, tt.left) || len(a.ByInstance()(first)) != 0 || len(before.ByInstance()(first)) == 0 {
				t.Errorf("left: %q, want %q; the instance shows %d volumes, in an older copy %d", left, tt.left, len(a.ByInstance()(first)), len(before.ByInstance()(first)))
			}
			if len(a.ByInstance()(second)) != 1 {
				t.Error("another instance lost its volume")
			}
		})
	}
}

func TestVolumesAreChosenByFilters(t *testing.T) {
	a := newAccount()
	a.launch(t, first, "us-east-1a", data+"&BlockDeviceMapping.1.Ebs.VolumeType=gp3&BlockDeviceMapping.1.Ebs.VolumeSize=100&BlockDeviceMapping.1.Ebs.Encrypted=true&BlockDeviceMapping.1.Ebs.SnapshotId=snap-1")
	a.launch(t, second, "us-east-1b", data)
	a.Detach(second) // leaves its second volume
	id := *a.volumes(t, &ec2.DescribeVolumesInput{Filters: ec2test.Filters("snapshot-id", "snap-1")})[0].VolumeId
	for name, tt := range map[string]struct {
		filters []string
		want    int
	}{
		"by id":                       {[]string{"volume-id", id}, 1},
		"those in use":                {[]string{"status", "in-use"}, 2},
		"those that are available":    {[]string{"status", "available"}, 1},
		"by type":                     {[]string{"volume-type", "gp3"}, 1},
		"by size":                     {[]string{"size", "20"}, 2},
		"by zone":                     {[]string{"availability-zone", "us-east-1b"}, 1},
		"by the id of a zone":         {[]string{"availability-zone-id", "id-of-us-east-1a"}, 2},
		"by instance":                 {[]string{"attachment.instance-id", first}, 2},
		"by an instance that had one": {[]string{"attachment.instance-id", second}, 0},
		"by any instance":             {[]string{"attachment.instance-id", "*"}, 2},
		"by device, of which an available has none": {[]string{"attachment.device", "/dev/xvdb"}, 1},
		"by whether they are encrypted":             {[]string{"encrypted", "true"}, 1},
		"by a tag":                                  {[]string{"tag:instance", first}, 2},
		"by type and size":                          {[]string{"volume-type", "gp3", "size", "20"}, 0},
	} {
		if got := a.volumes(t, &ec2.DescribeVolumesInput{Filters: ec2test.Filters(tt.filters...)}); len(got) != tt.want {
			t.Errorf("%s: %d volumes, want %d", name, len(got), tt.want)
		}
	}
}

func TestVolumesAreDescribedOrRefused(t *testing.T) {
	a := newAccount()
	a.launch(t, first, "us-east-1a", data)
	ids := []string{}
	for _, v := range a.volumes(t, &ec2.DescribeVolumesInput{}) {
		ids = append(ids, *v.VolumeId)
		if *v.AvailabilityZone != "us-east-1a" || !v.CreateTime.Equal(a.clock.Now()) || *v.MultiAttachEnabled {
			t.Errorf("a volume shows as %+v", v)
		}
	}
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatalf("two volumes have the ids %q", ids)
	}
	if got := a.volumes(t, &ec2.DescribeVolumesInput{VolumeIds: ids[1:]}); len(got) != 1 || *got[0].VolumeId != ids[1] {
		t.Errorf("by one id: %+v", got)
	}
	for name, tt := range map[string]struct {
		in   ec2.DescribeVolumesInput
		want string
	}{
		"one that is not there":       {ec2.DescribeVolumesInput{VolumeIds: []string{ids[0], "vol-0123456789abcdef0"}}, "InvalidVolume.NotFound"},
		"an id of no form":            {ec2.DescribeVolumesInput{VolumeIds: []string{"vol-xyz"}}, "InvalidVolumeID.Malformed"},
		"an id of another kind":       {ec2.DescribeVolumesInput{VolumeIds: []string{first}}, "InvalidVolumeID.Malformed"},
		"a filter that there is not":  {ec2.DescribeVolumesInput{Filters: ec2test.Filters("device", "/dev/xvda")}, "InvalidParameterValue"},
		"pages of fewer than five":    {ec2.DescribeVolumesInput{MaxResults: sdk.Int32(4)}, "InvalidParameterValue"},
		"a dry run":                   {ec2.DescribeVolumesInput{DryRun: sdk.Bool(true)}, "DryRunOperation"},
		"a token of something else":   {ec2.DescribeVolumesInput{NextToken: sdk.String("x")}, "InvalidNextToken"},
		"one that is, and no id else": {ec2.DescribeVolumesInput{VolumeIds: ids}, ""},
	} {
		if got := ec2test.Code(a.client.DescribeVolumes(t.Context(), &tt.in)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	before := a.Clone()
	a.Tags(ids[0])["later"] = "yes"
	a.clock.Advance(time.Hour)
	a.launch(t, second, "us-east-1b", "")
	if len(before.Tags(ids[0])) != 1 || len(before.ByInstance()(second)) != 0 || a.Tags("vol-none") != nil {
		t.Errorf("an older copy has the tags %v", before.Tags(ids[0]))
	}
	if got := a.Tags(ids[1])["later"]; got != "" {
		t.Error("the two volumes of an instance share their tags")
	}
}
