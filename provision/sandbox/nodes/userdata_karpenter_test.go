package nodes_test

import (
	"encoding/base64"
	"testing"

	"github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily/bootstrap"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

// TestWhatKarpenterWritesIsRead feeds the parsers with user data made by
// Karpenter's own code, for every family, bare and with a team's own user data. It
// is not beside the parsers, because their fuzz target would then rebuild Karpenter.
func TestWhatKarpenterWritesIsRead(t *testing.T) {
	unregistered := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
	gpu := corev1.Taint{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	startup := corev1.Taint{Key: "readiness.k8s.io/poolwright-gpu", Effect: corev1.TaintEffectNoSchedule}
	ca := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	options := bootstrap.Options{
		ClusterName: "dev", ClusterEndpoint: "https://127.0.0.1:6443", ClusterCIDR: new("10.100.0.0/16"), CABundle: &ca,
		Labels: map[string]string{"karpenter.sh/nodepool": "gpu", "karpenter.sh/capacity-type": "spot", "eks-node": "gpu"},
		Taints: []corev1.Taint{gpu, unregistered, startup}, InstanceStorePolicy: new(v1.InstanceStorePolicyRAID0),
		UnparsedKubeletConfig: v1.KubeletConfiguration{"clusterDNS": v1.JSONValue([]string{"10.100.0.10"}), "maxPods": v1.JSONValue(42),
			"kubeReserved": v1.JSONValue(map[string]string{"cpu": "123m"}), "systemReserved": v1.JSONValue(map[string]string{"memory": "200Mi"}),
			"evictionHard": v1.JSONValue(map[string]string{"memory.available": "5%"})},
	}
	var err error
	if options.KubeletConfig, err = v1.ParseKubeletConfig(options.UnparsedKubeletConfig); err != nil {
		t.Fatal(err)
	}
	want := userdata.Join{Cluster: "dev", Endpoint: "https://127.0.0.1:6443", CA: ca, RAID0: true, Kubelet: userdata.Kubelet{
		Labels: options.Labels, Taints: []corev1.Taint{unregistered, gpu, startup}, MaxPods: 42, KubeReserved: map[string]string{"cpu": "123m"},
		SystemReserved: map[string]string{"memory": "200Mi"}, EvictionHard: map[string]string{"memory.available": "5%"}}}

	for name, c := range map[string]struct {
		family userdata.Family
		custom string
	}{
		"AL2":                                 {userdata.AL2, ""},
		"AL2 with a script that mounts EFS":   {userdata.AL2, "#!/bin/bash\nyum install -y amazon-efs-utils\nEFS=fs-1\nmount -t efs $EFS:/ /mnt\n"},
		"AL2023":                              {userdata.AL2023, ""},
		"AL2023 with a script":                {userdata.AL2023, "#!/bin/bash\necho \"${HOME}\"\n"},
		"AL2023 with a NodeConfig of its own": {userdata.AL2023, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 3}}}\n"},
		"AL2023 with a MIME archive of its own": {userdata.AL2023, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hi\n" +
			"--x\nContent-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {flags: [--v=2]}}\n--x--\n"},
		"Bottlerocket":               {userdata.Bottlerocket, ""},
		"Bottlerocket with settings": {userdata.Bottlerocket, "[settings.kernel]\nlockdown = \"integrity\"\n[settings.kubernetes]\nlog-level = 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			options := options
			if c.custom != "" {
				options.CustomUserData = &c.custom
			}
			writer := map[userdata.Family]bootstrap.Bootstrapper{userdata.AL2: bootstrap.EKS{Options: options},
				userdata.AL2023: bootstrap.Nodeadm{Options: options}, userdata.Bottlerocket: bootstrap.Bottlerocket{Options: options}}[c.family]
			encoded, err := writer.Script(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatal(err)
			}
			got, err := userdata.Parse(c.family, string(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			want := want
			want.Family = c.family
			if diff := cmp.Diff(want, got, sortTaints()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func sortTaints() cmp.Option {
	return cmp.Transformer("sorted", func(taints []corev1.Taint) map[string]corev1.Taint {
		out := map[string]corev1.Taint{}
		for _, t := range taints {
			out[t.Key] = t
		}
		return out
	})
}
