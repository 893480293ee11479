package aws

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func TestDisksAreReadFromTheLaunchTemplate(t *testing.T) {
	form, err := query.Parse("BlockDeviceMapping.1.DeviceName=%2Fdev%2Fxvda&BlockDeviceMapping.1.Ebs.VolumeSize=4" +
		"&BlockDeviceMapping.2.DeviceName=%2Fdev%2Fxvdb&BlockDeviceMapping.2.Ebs.VolumeSize=200" +
		"&BlockDeviceMapping.3.DeviceName=%2Fdev%2Fxvdc&BlockDeviceMapping.3.Ebs.SnapshotId=snap-1")
	if err != nil {
		t.Fatal(err)
	}
	want := attachments{interfaces: []string{"interface"}, disks: map[string]int{"/dev/xvda": 4, "/dev/xvdb": 200}}
	if diff := cmp.Diff(want, attachmentsOf(form), cmp.AllowUnexported(attachments{}), cmpopts.IgnoreFields(attachments{}, "template")); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
}
