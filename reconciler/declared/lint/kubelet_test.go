package lint_test

import (
	"strings"
	"testing"

	"github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/google/go-cmp/cmp"
)

func TestTheKubeletsConfigurationIsCheckedAsKarpenterChecksIt(t *testing.T) {
	const class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  role: nodes\n  amiSelectorTerms: [{alias: al2023@latest}]\n" +
		"  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n"
	for name, c := range map[string]struct {
		kubelet string
		want    []string
	}{
		"none":                    {"", nil},
		"what a kubelet takes":    {"  kubelet: {maxPods: 42, cpuManagerPolicy: static}\n", nil},
		"a field that is unknown": {"  kubelet:\n    maxPods: 42\n    maxPod: 3\n", []string{`x/a.yaml:9: EC2NodeClass.karpenter.k8s.aws/gpu: spec.kubelet: unknown field "maxPod"`}},
		"a text for a number":     {"  kubelet: {podsPerCore: a}\n", []string{"x/a.yaml:9: EC2NodeClass.karpenter.k8s.aws/gpu: spec.kubelet: json: cannot unmarshal string into Go struct field KubeletConfiguration.podsPerCore of type int32"}},
		"a threshold without its period": {"  kubelet:\n    evictionSoft: {memory.available: 5%}\n", []string{
			"x/a.yaml:9: EC2NodeClass.karpenter.k8s.aws/gpu: spec.kubelet.evictionSoft[memory.available]: has no matching evictionSoftGracePeriod"}},
		"what Karpenter sets itself": {"  kubelet:\n    registerWithTaints: []\n", []string{
			"x/a.yaml:9: EC2NodeClass.karpenter.k8s.aws/gpu: spec.kubelet.registerWithTaints: can't be set, Karpenter sets it from the NodeClaim's taints so the node registers unschedulable until it's ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, apis.CRDs, "x/a.yaml", class+c.kubelet)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	long := check(t, apis.CRDs, "x/a.yaml", class+"  kubelet: {systemReserved: {"+strings.Repeat("a", 9000)+": 1m}}\n")
	if len(long) != 1 || len(long[0]) > 500 {
		t.Errorf("a long key makes %d problems, the first of %d bytes", len(long), len(strings.Join(long, "")))
	}
}
