package nodes

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/capacity"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

const (
	labelZoneID    = "topology.k8s.aws/zone-id"
	labelEBSZone   = "topology.ebs.csi.aws.com/zone"
	labelGroup     = "eks.amazonaws.com/nodegroup"
	labelGroupType = "eks.amazonaws.com/capacityType"

	defaultVolumeGiB = 20
)

// describe builds the Node that the machine registers: the kubelet's part from
// the user data, the cloud controller's from the machine. An error is why it
// never joins.
func (k *kubelet) describe() (*corev1.Node, error) {
	var err error
	if k.image, err = readImage(k.machine.Image); err != nil {
		return nil, err
	}
	join, err := k.readUserData()
	if err != nil {
		return nil, err
	}
	k.sharing = join.Sharing
	if k.image.family == userdata.Unknown {
		k.image.adopt(join.Family)
	}
	hw := k.machine.Hardware
	storage := hw.VolumeGiB
	if storage == 0 {
		storage = defaultVolumeGiB
	}
	if join.RAID0 && hw.StoreGiB > 0 {
		storage = hw.StoreGiB
	}
	total, allocatable, err := capacity.Compute(capacity.Hardware{
		VCPU: hw.VCPU, MemoryMiB: hw.MemoryMiB, Interfaces: hw.Interfaces, IPv4PerIface: hw.AddressesPerInterface,
		StorageGiB: storage, PodsFromLimit: join.Family == userdata.Bottlerocket,
	}, join.Kubelet)
	if err != nil {
		return nil, err
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.machine.DNSName, Labels: k.labels(join.Kubelet.Labels),
			Annotations: map[string]string{
				"alpha.kubernetes.io/provided-node-ip":                   k.machine.Address,
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			}},
		Spec: corev1.NodeSpec{ProviderID: k.machine.providerID(), Taints: join.Kubelet.Taints},
		Status: corev1.NodeStatus{
			Capacity: total, Allocatable: allocatable, Conditions: k.conditions(), NodeInfo: k.info(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: k.machine.Address},
				{Type: corev1.NodeInternalDNS, Address: k.machine.DNSName},
				{Type: corev1.NodeHostName, Address: k.machine.DNSName},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		},
	}, nil
}

// readUserData returns what the machine's user data declares, and refuses another
// cluster's.
func (k *kubelet) readUserData() (userdata.Join, error) {
	if g := k.machine.Group; g != nil {
		return userdata.Join{Family: k.image.family, Kubelet: userdata.Kubelet{Labels: g.Labels, Taints: g.Taints}}, nil
	}
	join, err := userdata.Parse(k.image.family, k.machine.UserData)
	if err != nil {
		return join, err
	}
	want := k.simulator.config.Cluster
	switch {
	case join.Cluster != want.Name:
		return join, fmt.Errorf("its user data names the cluster %q, this one is %q", join.Cluster, want.Name)
	case join.Endpoint != "" && strings.TrimSuffix(join.Endpoint, "/") != strings.TrimSuffix(want.Endpoint, "/"):
		return join, fmt.Errorf("its user data names another API server than %s", want.Endpoint)
	case join.CA != "" && want.CA != "" && !sameBytes(join.CA, want.CA):
		return join, fmt.Errorf("its user data holds another CA than the cluster's: the kubelet cannot trust the API server")
	}
	return join, nil
}

func sameBytes(a, b string) bool {
	x, errX := base64.StdEncoding.DecodeString(a)
	y, errY := base64.StdEncoding.DecodeString(b)
	return errX == nil && errY == nil && strings.TrimSpace(string(x)) == strings.TrimSpace(string(y))
}

// labels lays the kubelet's own and the cloud controller's labels over those of
// the user data. The EBS driver's zone is set as well, as on a cluster that has it.
func (k *kubelet) labels(given map[string]string) map[string]string {
	m, labels := k.machine, map[string]string{}
	maps.Copy(labels, given)
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname: m.DNSName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: k.architecture(),
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": k.architecture(),
		corev1.LabelInstanceTypeStable: m.Type, corev1.LabelInstanceType: m.Type,
		corev1.LabelTopologyZone: m.Zone, corev1.LabelFailureDomainBetaZone: m.Zone,
		corev1.LabelTopologyRegion:          k.simulator.config.Cluster.Region,
		corev1.LabelFailureDomainBetaRegion: k.simulator.config.Cluster.Region,
		labelZoneID:                         m.ZoneID, labelEBSZone: m.Zone,
	})
	if m.Group != nil {
		labels[labelGroup], labels[labelGroupType] = m.Group.Name, "ON_DEMAND"
	}
	return labels
}

func (k *kubelet) architecture() string {
	if k.machine.Hardware.Architecture == "" {
		return "amd64"
	}
	return k.machine.Hardware.Architecture
}

func (k *kubelet) conditions() []corev1.NodeCondition {
	now := metav1.NewTime(k.simulator.config.Clock.Now())
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
}

// notReady makes a Node register as before its network plugin runs.
func notReady(node *corev1.Node) {
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil {
		c.Status, c.Reason = corev1.ConditionFalse, "KubeletNotReady"
		c.Message = "container runtime network not ready: cni plugin not initialized"
	}
}

func ready(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func (k *kubelet) info() corev1.NodeSystemInfo {
	version := k.image.version
	if version == "" {
		version = k.simulator.config.Cluster.Version
	}
	id := strings.TrimPrefix(k.machine.ID, "i-")
	return corev1.NodeSystemInfo{
		KubeletVersion: "v" + version + ".0-eks-sandbox", OperatingSystem: "linux", Architecture: k.architecture(),
		OSImage: k.image.os, KernelVersion: "6.12.0-sandbox", ContainerRuntimeVersion: "containerd://2.1.0",
		MachineID: id, SystemUUID: id, BootID: id,
	}
}
