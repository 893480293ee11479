package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const testCluster = "dev"

// userDataOf writes what Karpenter passes to a machine of a family: its pool's and its
// hardware's labels, the pool's taint and a startup taint.
func userDataOf(family string) string {
	switch family {
	case "AL2":
		return "#!/bin/bash\n/etc/eks/bootstrap.sh dev --apiserver-endpoint https://e --b64-cluster-ca Q0E= --kubelet-extra-args " +
			"'--node-labels=\"karpenter.sh/nodepool=gpu,karpenter.k8s.aws/instance-gpu-count=4\" " +
			"--register-with-taints=\"nvidia.com/gpu=true:NoSchedule,readiness.k8s.io/poolwright-gpu:NoSchedule\"'\n"
	case "AL2023":
		return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n" +
			"  cluster: {name: dev, apiServerEndpoint: https://e, certificateAuthority: Q0E=, cidr: 10.100.0.0/16}\n" +
			"  kubelet:\n    flags: ['--node-labels=karpenter.sh/nodepool=gpu,karpenter.k8s.aws/instance-gpu-count=4']\n" +
			"    config: {registerWithTaints: [{key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}, {key: readiness.k8s.io/poolwright-gpu, effect: NoSchedule}]}\n"
	default:
		return "[settings.kubernetes]\ncluster-name = \"dev\"\napi-server = \"https://e\"\ncluster-certificate = \"Q0E=\"\n" +
			"[settings.kubernetes.node-labels]\n\"karpenter.sh/nodepool\" = \"gpu\"\n\"karpenter.k8s.aws/instance-gpu-count\" = \"4\"\n" +
			"[settings.kubernetes.node-taints]\n\"nvidia.com/gpu\" = [\"true:NoSchedule\"]\n\"readiness.k8s.io/poolwright-gpu\" = [\":NoSchedule\"]\n"
	}
}

func described(t *testing.T, m Machine) (*kubelet, *corev1.Node) {
	t.Helper()
	config, err := Config{Client: noClient{}, Cluster: Cluster{Name: testCluster, Endpoint: "https://e", CA: "Q0E=", Region: "us-east-1", Version: "1.36"}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	k := newKubelet(&Simulator{config: config, ctx: context.Background()}, m)
	t.Cleanup(k.cancel)
	node, err := k.describe()
	if err != nil {
		t.Fatal(err)
	}
	return k, node
}

func TestANodeRegistersWithTheTaintsAndLabelsOfItsUserData(t *testing.T) {
	want := []corev1.Taint{
		{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "readiness.k8s.io/poolwright-gpu", Effect: corev1.TaintEffectNoSchedule},
	}
	for name, c := range map[string]struct{ image, family, os string }{
		"Amazon Linux 2":               {"amazon-eks-gpu-node-1.31-v20261110", "AL2", "Amazon Linux 2"},
		"Amazon Linux 2023":            {"amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261110", "AL2023", "Amazon Linux 2023"},
		"Bottlerocket":                 {"bottlerocket-aws-k8s-1.36-nvidia-x86_64-v1.50.0-0123abcd", "Bottlerocket", "Bottlerocket OS"},
		"an image of ours, as AL2023":  {"our-gpu-image", "AL2023", "Amazon Linux 2023"},
		"another, as Bottlerocket":     {"our-nvidia-rocket", "Bottlerocket", "Bottlerocket OS"},
		"a third, which calls scripts": {"our-gpu-image-2", "AL2", "Amazon Linux 2"},
	} {
		t.Run(name, func(t *testing.T) {
			k, node := described(t, Machine{ID: "i-1", Type: "g4dn.12xlarge", Zone: "us-east-1a", Image: c.image, DNSName: "n", UserData: userDataOf(c.family),
				Hardware: Hardware{VCPU: 48, MemoryMiB: 196608, GPUs: 4, Interfaces: 8, AddressesPerInterface: 30}})
			if diff := cmp.Diff(want, node.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			if got := node.Labels["karpenter.sh/nodepool"] + " " + node.Labels["karpenter.k8s.aws/instance-gpu-count"]; got != "gpu 4" {
				t.Errorf("labels: %s", got)
			}
			if got := node.Status.NodeInfo.OSImage; !strings.HasPrefix(got, c.os) {
				t.Errorf("its system is %q, want %q", got, c.os)
			}
			if _, ok := node.Status.Capacity["nvidia.com/gpu"]; ok {
				t.Error("it registers with GPUs")
			}
			if got, want := k.source().id, map[bool]string{true: builtin}[c.family == "Bottlerocket"]; got != want {
				t.Errorf("its own plugin is %q, want %q", got, want)
			}
		})
	}
}

func TestAManagedGroupsMachineKeepsAnUnknownSystem(t *testing.T) {
	_, node := described(t, Machine{ID: "i-1", Image: "our-image", DNSName: "n", Group: &Group{Name: "g"},
		Hardware: Hardware{VCPU: 2, MemoryMiB: 8192, Interfaces: 3, AddressesPerInterface: 10}})
	if got := fmt.Sprint(node.Status.NodeInfo.OSImage, node.Labels["eks.amazonaws.com/nodegroup"]); got != "Linuxg" {
		t.Errorf("system and group: %s", got)
	}
}
