package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestTheSystemNodeHasTheTaintsThatTheWorldGivesIt(t *testing.T) {
	addons := []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	for _, taints := range [][]corev1.Taint{nil, addons} {
		machine, err := systemMachine(aws.DefaultConfig(), taints)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(taints, machine.Group.Taints); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
	}
}
