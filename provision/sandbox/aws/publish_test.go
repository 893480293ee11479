package aws_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestAPublishedReleaseIsTheRecommendedOne(t *testing.T) {
	w := newFixture(t, nil)
	const root = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/"
	read := func(name string) (string, int64) {
		t.Helper()
		out, err := w.ssm.GetParameter(t.Context(), &ssm.GetParameterInput{Name: sdk.String(root + name + "/image_id")})
		ok(t, err)
		return *out.Parameter.Value, out.Parameter.Version
	}
	old, first := read("recommended")
	bottlerocket := w.parameter(t, "/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id")
	ok(t, w.cloud.Publish("v20261120"))
	fresh, second := read("recommended")
	if fresh == old || second != first+1 {
		t.Errorf("%s, version %d, became %s, version %d", old, first, fresh, second)
	}
	if byName, version := read("amazon-eks-node-al2023-x86_64-nvidia-1.33-v20261120"); byName != fresh || version != 1 {
		t.Errorf("the release's own parameter is %s, version %d", byName, version)
	}
	if last, _ := read("amazon-eks-node-al2023-x86_64-nvidia-1.33-v20261102"); last != old {
		t.Errorf("the parameter of the release before is %s now, not %s", last, old)
	}
	if got := w.parameter(t, "/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id"); got != bottlerocket {
		t.Errorf("Bottlerocket is %s now, not %s", got, bottlerocket)
	}
	for _, id := range []string{old, fresh} {
		out, err := w.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{id}})
		ok(t, err)
		if len(out.Images) != 1 {
			t.Errorf("image %s: %v", id, out.Images)
		}
	}
	for _, bad := range []string{"v20261120", "tomorrow", "", sandboxaws.DefaultConfig().Releases[0]} {
		if err := w.cloud.Publish(bad); err == nil {
			t.Errorf("release %q was published", bad)
		}
	}
}
