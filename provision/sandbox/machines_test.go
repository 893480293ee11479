package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestTheSystemNodeHasTheTaintsThatTheConfigGivesIt(t *testing.T) {
	addons := []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	for _, taints := range [][]corev1.Taint{nil, addons} {
		machine, err := systemMachine(sandboxaws.DefaultConfig(), taints)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(taints, machine.Group.Taints); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
	}
}

// The numbers are those of Karpenter's reference page.
func TestMachinesHaveTheNeuronDevicesOfTheirType(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]int{
		"inf1.24xlarge": {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 64},
		"trn2.48xlarge": {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 128},
		"dl2q.24xlarge": {},
		"m5.large":      {},
	} {
		hardware, err := hardwareOf(types, name)
		if diff := cmp.Diff(want, hardware.Devices); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestOnlyTheEFAInterfacesThatATemplateGivesAreOffered(t *testing.T) {
	template := map[string]string{
		"NetworkInterface.1.InterfaceType": "efa", "NetworkInterface.2.InterfaceType": "efa-only", "NetworkInterface.3.InterfaceType": "interface",
		"NetworkInterface.1.DeviceIndex": "0", "InstanceType": "efa",
	}
	if got := efaInterfaces(template); got != 2 {
		t.Errorf("%d EFA interfaces, want 2", got)
	}
	if got := efaInterfaces(nil); got != 0 {
		t.Errorf("%d EFA interfaces without a template", got)
	}
}
