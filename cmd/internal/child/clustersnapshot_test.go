package child

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

const gpuClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20261001}]
  subnetSelectorTerms: [{tags: {cluster: c}}]
  securityGroupSelectorTerms: [{id: sg-1}]
`

const gpuPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    metadata: {labels: {team: ml}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      expireAfter: 720h
      terminationGracePeriod: 2h
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g5.xlarge]}
  limits: {nvidia.com/gpu: 8}
  disruption: {consolidateAfter: 1m, budgets: [{nodes: 10%, schedule: "0 9 * * 1-5", duration: 8h}, {nodes: "2"}]}
`

const widePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r, g]}
  limits: {cpu: 10000}
  disruption: {consolidateAfter: 1m, budgets: [{nodes: 10%}]}
`

const pricierOverlay = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: shared}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}]
  capacity: {nvidia.com/gpu.shared: "4"}
  priceAdjustment: "+7.5%"
`

const agents = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: a, image: a, resources: {requests: {cpu: 250m, memory: 64Mi}}}]
`

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: ml}
spec:
  replicas: 3
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: 1}}}]
`

// declare is the snapshot that YAML documents declare, at noon of a Friday.
func declare(tb testing.TB, documents ...string) provision.ClusterSnapshot {
	tb.Helper()
	reader, err := simulate.NewReader()
	if err != nil {
		tb.Fatal(err)
	}
	snapshot := provision.ClusterSnapshot{
		Now:     time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		Cluster: provision.Cluster{Region: "us-east-1", CABundle: "Y2EtYnVuZGxl"},
	}
	for _, text := range documents {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			tb.Fatal(err)
		}
		if err := reader.Add(&snapshot, object); err != nil {
			tb.Fatal(err)
		}
	}
	for _, c := range snapshot.NodeClasses {
		c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a", Zone: "us-east-1a", ZoneID: "use1-az1"}}
		c.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}}
	}
	return snapshot
}

// launch adds a node of the pool of that number, as the snapshot declares it now.
func launch(snapshot *provision.ClusterSnapshot, of int, name string, age time.Duration) *corev1.Node {
	p, c := snapshot.NodePools[of], snapshot.NodeClasses[of]
	labels := map[string]string{
		karpv1.NodePoolLabelKey: p.Name, corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand",
		corev1.LabelTopologyZone: "us-east-1a", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: "node-" + name,
		"karpenter.k8s.aws/instance-category": "g", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
	}
	maps.Copy(labels, p.Spec.Template.Labels)
	has := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("15Gi"), "pods": resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1")}
	meta := metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(snapshot.Now.Add(-age)), Labels: labels, Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: p.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
			awsv1.AnnotationEC2NodeClassHash: c.Hash(&snapshot.Cluster.CABundle), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "karpenter", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
	}
	claim := &karpv1.NodeClaim{
		ObjectMeta: meta, Spec: karpv1.NodeClaimSpec{NodeClassRef: p.Spec.Template.Spec.NodeClassRef},
		Status: karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/i-" + name, NodeName: "node-" + name, ImageID: "ami-1", Capacity: has, Allocatable: has},
	}
	for _, cond := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(cond)
	}
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = meta.CreationTimestamp
	}
	meta.Name, meta.Annotations = "node-"+name, nil
	node := &corev1.Node{
		ObjectMeta: meta, Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: p.Spec.Template.Spec.Taints},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	snapshot.NodeClaims, snapshot.Nodes = append(snapshot.NodeClaims, claim), append(snapshot.Nodes, node)
	return node
}

// bind adds a pod on a node; on "" it waits.
func bind(snapshot *provision.ClusterSnapshot, name, node, cpu string, gpus string) *corev1.Pod {
	controls := true
	requests := corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	if gpus != "" {
		requests["nvidia.com/gpu"] = resource.MustParse(gpus)
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: map[string]string{"app": strings.SplitN(name, "-", 2)[0]},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: &controls}},
		},
		Spec: corev1.PodSpec{
			NodeName: node, Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c@sha256:1", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	}
	snapshot.Pods = append(snapshot.Pods, p)
	return p
}

func protect(snapshot *provision.ClusterSnapshot, app string, allowed int32) {
	one := intstr.FromString("50%")
	snapshot.PodDisruptionBudgets = append(snapshot.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
}

// large is 20 pools of a class each, 500 nodes and 5,000 pods of 100 workloads.
func large(tb testing.TB) provision.ClusterSnapshot { return sized(tb, 500) }

// sized is 20 pools of a class each, so many nodes and ten times as many pods of 100
// workloads.
func sized(tb testing.TB, nodes int) provision.ClusterSnapshot {
	var documents []string
	for i := range 20 {
		name := fmt.Sprintf("name: p%02d", i)
		documents = append(documents, strings.ReplaceAll(widePool, "name: gpu", name), strings.ReplaceAll(gpuClass, "name: gpu", name))
	}
	snapshot := declare(tb, documents...)
	for i := range nodes {
		node := launch(&snapshot, i%20, fmt.Sprintf("n%03d", i), time.Duration(i)*time.Hour)
		for j := range 10 {
			p := bind(&snapshot, fmt.Sprintf("w%02d-%d-%d", i%100, i, j), node.Name, fmt.Sprint(100+i%100, "m"), "")
			if i%4 == 0 {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
				}}
			}
		}
	}
	for i := range 100 {
		protect(&snapshot, fmt.Sprintf("w%02d", i), 1)
	}
	for i := range 20 {
		bind(&snapshot, fmt.Sprint("waits-", i), "", "1", "1")
	}
	return snapshot
}

func settings() engine.Settings {
	s := engine.DefaultSettings()
	s.Cluster, s.Region, s.Account = "c", "us-east-1", "111122223333"
	return s
}
