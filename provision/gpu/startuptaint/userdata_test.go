package startuptaint_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// TestTheTaintIsInTheUserData resolves the launch template of a claim that came
// through the decorator, with the AWS provider's own code.
func TestTheTaintIsInTheUserData(t *testing.T) {
	for family, c := range map[string]struct {
		// carries is what holds the taint, in a line with lineOf.
		lineOf, carries string
	}{
		awsv1.AMIFamilyAL2:          {"--register-with-taints=", gpu.StartupTaint + ":NoSchedule"},
		awsv1.AMIFamilyAL2023:       {"registerWithTaints", ""},
		awsv1.AMIFamilyBottlerocket: {`'` + gpu.StartupTaint + `' = `, "':NoSchedule'"},
	} {
		t.Run(family, func(t *testing.T) {
			inner := &cloud{types: machines(), created: &karpv1.NodeClaim{}}
			provider, _ := decorate(t, inner, sharing("gpu"))
			if _, err := provider.Create(t.Context(), claim("gpu", "one")); err != nil {
				t.Fatal(err)
			}
			with, without := userData(t, family, inner.launched, inner), userData(t, family, claim("gpu", "one"), inner)
			if strings.Contains(without, gpu.StartupTaint) {
				t.Error("a claim that was not held has the taint, so this proves nothing")
			}
			lines := strings.Split(with, "\n")
			at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, c.lineOf) })
			if at < 0 {
				t.Fatalf("no line has %q:\n%s", c.lineOf, with)
			}
			if family == awsv1.AMIFamilyAL2023 {
				if !registersTaint(lines[at:]) {
					t.Errorf("the kubelet does not register the taint:\n%s", with)
				}
				return
			}
			if !strings.Contains(lines[at], c.carries) {
				t.Errorf("the line with %q has no %q:\n%s", c.lineOf, c.carries, with)
			}
		})
	}
}

// registersTaint looks through the list that begins in the first line.
func registersTaint(lines []string) bool {
	text := strings.Join(lines, "\n")
	key := strings.Index(text, "key: "+gpu.StartupTaint)
	return key >= 0 && strings.Contains(text[max(0, key-60):key], "effect: NoSchedule")
}

// userData is what an instance for the claim would be given.
func userData(t *testing.T, family string, claim *karpv1.NodeClaim, from *cloud) string {
	t.Helper()
	class := &awsv1.EC2NodeClass{}
	class.Name, class.Spec.AMIFamily = "gpu", &family
	class.Status.AMIs = []awsv1.AMI{{ID: "ami-1", Name: "image", Requirements: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.ArchitectureAmd64}},
	}}}
	ca, cidr := "Y2E=", "10.100.0.0/16"
	expressions, err := kubeletcel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	resolver := amifamily.NewDefaultResolver("us-east-1", func(string) (amifamily.ENILimits, bool) { return amifamily.ENILimits{}, false }, expressions)
	templates, err := resolver.Resolve(awsoptions.ToContext(t.Context(), &awsoptions.Options{}), class, claim, from.types[1:2], karpv1.CapacityTypeOnDemand, "default", &amifamily.Options{
		ClusterName: "sandbox", ClusterEndpoint: "https://example.com", ClusterCIDR: &cidr, CABundle: &ca, NodeClassName: "gpu",
	}, "", 0)
	if err != nil || len(templates) == 0 {
		t.Fatal(len(templates), err)
	}
	script, err := templates[0].UserData.Script(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(script)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
