package userdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

const cluster = "cluster: {name: c, apiServerEndpoint: https://e, certificateAuthority: Q0E=, cidr: 10.100.0.0/16}"

// archive is a MIME archive of parts, each "content type\nbody".
func archive(parts ...string) string {
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n")
	for _, p := range parts {
		kind, body, _ := strings.Cut(p, "\n")
		b.WriteString("--//\nContent-Type: " + kind + "\n\n" + body + "\n")
	}
	return b.String() + "--//--\n"
}

func nodeConfig(spec string) string {
	return "application/node.eks.aws\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n" + indent(spec)
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

func script(text string) string {
	return "text/x-shellscript; charset=\"us-ascii\"\n#!/bin/bash\n" + text
}

func TestUserDataIsReadAsTheImageReadsIt(t *testing.T) {
	gpu := corev1.Taint{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	boot := corev1.Taint{Key: "booting", Effect: corev1.TaintEffectNoExecute}
	for name, c := range map[string]struct {
		family userdata.Family
		text   string
		want   userdata.Join
	}{
		"a bootstrap call over several lines": {userdata.AL2, archive(script(`exec > >(tee /var/log/x|logger -t y) 2>&1
/etc/eks/bootstrap.sh 'c' --apiserver-endpoint 'https://e' --b64-cluster-ca 'Q0E=' \
--use-max-pods false --local-disks raid0 \
--kubelet-extra-args '--node-labels="a=1,b=2" --register-with-taints="nvidia.com/gpu=true:NoSchedule,booting:NoExecute" --max-pods=29'`)),
			userdata.Join{Family: userdata.AL2, Cluster: "c", Endpoint: "https://e", CA: "Q0E=", RAID0: true, Kubelet: userdata.Kubelet{
				Labels: map[string]string{"a": "1", "b": "2"}, Taints: []corev1.Taint{gpu, boot}, MaxPods: 29}}},
		"a bare script that queries EKS for the endpoint": {userdata.AL2, "#!/bin/sh\nset -e; mount -t efs fs-1:/ /mnt # not $here\nif true; then sudo /etc/eks/bootstrap.sh c; fi\n",
			userdata.Join{Family: userdata.AL2, Cluster: "c"}},
		"without interface counting kubelet's own limit holds": {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh --use-max-pods false c",
			userdata.Join{Family: userdata.AL2, Cluster: "c", Kubelet: userdata.Kubelet{MaxPods: 110}}},
		"the last of two calls holds": {userdata.AL2, archive(script("/etc/eks/bootstrap.sh old"), script("/etc/eks/bootstrap.sh new")),
			userdata.Join{Family: userdata.AL2, Cluster: "new"}},
		"a here-document is no command": {userdata.AL2, "#!/bin/sh\ncat <<'EOF' > /f\n/etc/eks/bootstrap.sh wrong $X \"\nEOF\n/etc/eks/bootstrap.sh right",
			userdata.Join{Family: userdata.AL2, Cluster: "right"}},
		"an exit that may not come": {userdata.AL2, "#!/bin/sh\nset -e\nmount /x || exit 1\nmount /y ||\n  exit 1\nif false; then\n  echo no\n  exit 2\nfi\ncheck() {\n exit 3\n}\n/etc/eks/bootstrap.sh c\nexit 0",
			userdata.Join{Family: userdata.AL2, Cluster: "c"}},
		"a failure that ends nothing":              {userdata.AL2, "#!/bin/sh\nfalse\n/etc/eks/bootstrap.sh c", userdata.Join{Family: userdata.AL2, Cluster: "c"}},
		"a script that ends beside one that calls": {userdata.AL2, archive(script("exit 1"), script("/etc/eks/bootstrap.sh c")), userdata.Join{Family: userdata.AL2, Cluster: "c"}},
		"a shift is no here-document":              {userdata.AL2, "#!/bin/sh\nx=$((1 << 4))\n/etc/eks/bootstrap.sh c", userdata.Join{Family: userdata.AL2, Cluster: "c"}},
		"kubelet reservations as flags": {userdata.AL2, `#!/bin/sh
/etc/eks/bootstrap.sh c --kubelet-extra-args '--kube-reserved="cpu=100m,memory=1Gi" --system-reserved=cpu=50m --eviction-hard="memory.available<5%" --pods-per-core 4 --cpu-cfs-quota'`,
			userdata.Join{Family: userdata.AL2, Cluster: "c", Kubelet: userdata.Kubelet{PodsPerCore: 4, KubeReserved: map[string]string{"cpu": "100m", "memory": "1Gi"},
				SystemReserved: map[string]string{"cpu": "50m"}, EvictionHard: map[string]string{"memory.available": "5%"}}}},

		"one NodeConfig without MIME": {userdata.AL2023, strings.SplitN(nodeConfig(cluster), "\n", 2)[1],
			userdata.Join{Family: userdata.AL2023, Cluster: "c", Endpoint: "https://e", CA: "Q0E="}},
		"several NodeConfigs are merged in their order": {userdata.AL2023, archive(
			nodeConfig("featureGates: {InstanceIdNodeName: true}\nkubelet:\n  flags: [--node-labels=a=1]\n  config: {maxPods: 10, kubeReserved: {cpu: 1m, memory: 2Mi}, registerWithTaints: [{key: mine, effect: NoSchedule}]}"),
			"text/x-shellscript\n#!/bin/sh\necho hi",
			nodeConfig(cluster+"\ninstance: {localStorage: {strategy: RAID0}}\nkubelet:\n  flags: ['--node-labels=\"b=2\"']\n  config: {maxPods: 20, kubeReserved: {cpu: 5m}, registerWithTaints: [{key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}]}")),
			userdata.Join{Family: userdata.AL2023, Cluster: "c", Endpoint: "https://e", CA: "Q0E=", RAID0: true, Kubelet: userdata.Kubelet{
				Labels: map[string]string{"a": "1", "b": "2"}, Taints: []corev1.Taint{gpu}, MaxPods: 20, KubeReserved: map[string]string{"cpu": "5m", "memory": "2Mi"}}}},
		"a flag wins over the configuration": {userdata.AL2023, archive(nodeConfig(cluster + "\nkubelet: {flags: [--max-pods=5], config: {maxPods: 20}}")),
			userdata.Join{Family: userdata.AL2023, Cluster: "c", Endpoint: "https://e", CA: "Q0E=", Kubelet: userdata.Kubelet{MaxPods: 5}}},

		"Bottlerocket settings": {userdata.Bottlerocket, `[settings.kubernetes]
cluster-name = "c"
api-server = "https://e"
cluster-certificate = "Q0E="
max-pods = 29
[settings.kubernetes.node-labels]
"a" = "1"
[settings.kubernetes.node-taints]
"nvidia.com/gpu" = ["true:NoSchedule"]
"booting" = ":NoExecute"
[settings.kubernetes.kube-reserved]
cpu = "10m"
[settings.kubernetes.eviction-hard]
"memory.available" = "15%"
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind", "--dirs", "/x"]]
[settings.kubelet-device-plugins.nvidia]
device-sharing-strategy = "time-slicing"
[settings.kubelet-device-plugins.nvidia.time-slicing]
replicas = 4
fail-requests-greater-than-one = true
`, userdata.Join{Family: userdata.Bottlerocket, Cluster: "c", Endpoint: "https://e", CA: "Q0E=", RAID0: true,
			Sharing: userdata.Sharing{Strategy: "time-slicing", Replicas: 4, FailRequestsGreaterThanOne: true},
			Kubelet: userdata.Kubelet{Labels: map[string]string{"a": "1"}, Taints: []corev1.Taint{boot, gpu}, MaxPods: 29,
				KubeReserved: map[string]string{"cpu": "10m"}, EvictionHard: map[string]string{"memory.available": "15%"}}}},
	} {
		for _, family := range []userdata.Family{c.family, userdata.Unknown} {
			t.Run(name+" as "+string(family), func(t *testing.T) {
				got, err := userdata.Parse(family, c.text)
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Kubelet.Labels) == 0 {
					got.Kubelet.Labels = nil
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestUnreadableUserDataIsRefusedWithAReason(t *testing.T) {
	const secret = "hunter2"
	for name, c := range map[string]struct {
		family userdata.Family
		text   string
		reason string
	}{
		"nothing":                        {userdata.AL2023, " \n", "empty"},
		"a script on AL2023":             {userdata.AL2023, "#!/bin/sh\necho " + secret, "no NodeConfig"},
		"IPv6 on AL2":                    {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --ip-family ipv6", "IPv6"},
		"IPv6 on AL2023":                 {userdata.AL2023, archive(nodeConfig(strings.Replace(cluster, "10.100.0.0/16", "\"fd00:1::/108\"", 1))), "IPv6"},
		"a script that exits first":      {userdata.AL2, "#!/bin/sh\nexit 1\n/etc/eks/bootstrap.sh hunter2", "ends before it calls"},
		"a script that fails first":      {userdata.AL2, archive(script("set -ex\nfalse; /etc/eks/bootstrap.sh hunter2")), "ends before it calls"},
		"no bootstrap call":              {userdata.AL2, "#!/bin/sh\necho " + secret, "calls /etc/eks/bootstrap.sh"},
		"a variable as cluster name":     {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh $hunter2", "shell expansion"},
		"a variable as endpoint":         {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --apiserver-endpoint \"$hunter2\"", "--apiserver-endpoint is a shell expansion"},
		"a variable in kubelet's flags":  {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=a=$hunter2'", "shell expansion"},
		"an option without a value":      {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --b64-cluster-ca", "has no value"},
		"no cluster name":                {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh --b64-cluster-ca hunter2", "without a cluster name"},
		"an unclosed quote":              {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh 'hunter2", "unclosed single quote"},
		"an unclosed double quote":       {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh \"hunter2", "unclosed double quote"},
		"an endless here-document":       {userdata.AL2, "#!/bin/sh\ncat <<EOF\nhunter2", "here-document"},
		"a reserved label":               {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=node-role.kubernetes.io/gpu=hunter2'", "reserved for Kubernetes"},
		"a malformed label":              {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=hunter2'", "kubelet refuses --node-labels"},
		"a malformed label value":        {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=a=hunter2!'", `value of the node label "a"`},
		"an unknown taint effect":        {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--register-with-taints=a=hunter2:Never'", "unknown effect"},
		"a pod limit of nothing":         {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args --max-pods=0", "--max-pods"},
		"a NodeConfig without a CIDR":    {userdata.AL2023, archive(nodeConfig("cluster: {name: c, apiServerEndpoint: hunter2, certificateAuthority: Q0E=}")), "spec.cluster.cidr is missing"},
		"a NodeConfig of another kind":   {userdata.AL2023, archive("application/node.eks.aws\napiVersion: v1\nkind: Secret\ndata: {p: hunter2}"), "another apiVersion or kind"},
		"a NodeConfig that is not YAML":  {userdata.AL2023, archive("application/node.eks.aws\n\thunter2: ["), "MIME part 1"},
		"kubelet config of a wrong type": {userdata.AL2023, archive(nodeConfig(cluster + "\nkubelet: {config: {maxPods: hunter2}}")), "wrong type"},
		"a MIME header without boundary": {userdata.AL2023, "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nhunter2", "boundary"},
		"an archive that is cut off":     {userdata.AL2023, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\nhunter2", "cut off"},
		"TOML that is none":              {userdata.Bottlerocket, "hunter2 = = [", "not TOML"},
		"settings without a cluster":     {userdata.Bottlerocket, "[settings.kubernetes]\napi-server = \"hunter2\"\ncluster-certificate=\"x\"", "settings.kubernetes.cluster-name is missing"},
		"labels that are no strings":     {userdata.Bottlerocket, "[settings.kubernetes]\napi-server=\"a\"\ncluster-name=\"b\"\ncluster-certificate=\"c\"\nnode-labels={hunter2=1}", "node-labels"},
		"sharing without replicas":       {userdata.Bottlerocket, "[settings.kubernetes]\napi-server=\"a\"\ncluster-name=\"b\"\ncluster-certificate=\"c\"\n[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy=\"mps\"", "replicas of 2 or more"},
		"an unknown sharing strategy":    {userdata.Bottlerocket, "[settings.kubernetes]\napi-server=\"a\"\ncluster-name=\"b\"\ncluster-certificate=\"c\"\n[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy=\"hunter2\"", "device-sharing-strategy"},
		"an unknown family":              {"Windows2022", "x", "unknown image family"},
		"a text of no family":            {userdata.Unknown, "hunter2", "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := userdata.Parse(c.family, c.text)
			if err == nil {
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %q, want something with %q", err, c.reason)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error repeats the user data: %q", err)
			}
		})
	}
}

// TestAStartupTaintIsRead holds that a taint without a value is read however the
// family writes it, beside another one.
func TestAStartupTaintIsRead(t *testing.T) {
	want := []corev1.Taint{
		{Key: "nvidia.com/gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "readiness.k8s.io/poolwright-gpu", Effect: corev1.TaintEffectNoSchedule},
	}
	for name, c := range map[string]struct {
		family userdata.Family
		text   string
	}{
		"a kubelet flag on AL2": {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--register-with-taints=\"nvidia.com/gpu=true:NoSchedule,readiness.k8s.io/poolwright-gpu:NoSchedule\"'"},
		"with an equals sign":   {userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--register-with-taints=nvidia.com/gpu=true:NoSchedule,readiness.k8s.io/poolwright-gpu=:NoSchedule'"},
		"kubelet config on AL2023": {userdata.AL2023, archive(nodeConfig(cluster + "\nkubelet: {config: {registerWithTaints: [{key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}, " +
			"{key: readiness.k8s.io/poolwright-gpu, effect: NoSchedule}]}}"))},
		"a kubelet flag on AL2023": {userdata.AL2023, archive(nodeConfig(cluster + "\nkubelet: {flags: ['--register-with-taints=nvidia.com/gpu=true:NoSchedule,readiness.k8s.io/poolwright-gpu:NoSchedule']}"))},
		"node-taints on Bottlerocket": {userdata.Bottlerocket, "[settings.kubernetes]\ncluster-name = \"c\"\napi-server = \"e\"\ncluster-certificate = \"x\"\n" +
			"[settings.kubernetes.node-taints]\n\"nvidia.com/gpu\" = [\"true:NoSchedule\"]\n\"readiness.k8s.io/poolwright-gpu\" = [\":NoSchedule\"]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Parse(c.family, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Kubelet.Taints); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDomainsThatAKubeletMayLabel(t *testing.T) {
	for _, label := range []string{"feature.node.kubernetes.io/pci-10de.present", "kubelet.kubernetes.io/x", "node.kubernetes.io/instance-type",
		"topology.kubernetes.io/zone", "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass",
		"karpenter.k8s.aws/instance-gpu-count", "karpenter.k8s.aws/instance-gpu-manufacturer", "plain"} {
		if _, err := userdata.Parse(userdata.AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh c --kubelet-extra-args --node-labels="+label+"=x"); err != nil {
			t.Errorf("%s: %v", label, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("AL2", archive(script("/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=\"a=b\"'")))
	f.Add("AL2023", archive(nodeConfig(cluster+"\nkubelet: {config: {maxPods: 3}}")))
	f.Add("Bottlerocket", "[settings.kubernetes]\ncluster-name=\"c\"\napi-server=\"e\"\ncluster-certificate=\"x\"\n")
	f.Add("", "#!/bin/sh\ncat <<-'EOF'\n\tx\n\tEOF\n/etc/eks/bootstrap.sh c")
	f.Fuzz(func(t *testing.T, family, text string) {
		join, err := userdata.Parse(userdata.Family(family), text)
		if err != nil {
			return
		}
		if join.Cluster == "" || join.Family == userdata.Unknown {
			t.Errorf("taken without a cluster or a family: %+v", join)
		}
		if join.Family != userdata.AL2 && (join.Endpoint == "" || join.CA == "") {
			t.Errorf("taken without an endpoint or a CA: %+v", join)
		}
		for _, taint := range join.Kubelet.Taints {
			if taint.Key == "" || taint.Effect == "" {
				t.Errorf("a taint that the API server refuses: %+v", taint)
			}
		}
		if join.Kubelet.MaxPods < 0 {
			t.Errorf("max pods %d", join.Kubelet.MaxPods)
		}
	})
}
