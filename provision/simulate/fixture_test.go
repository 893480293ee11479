package simulate_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

const caBundle = "Y2EtYnVuZGxl"

// noon is a Friday.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20261001}]
  subnetSelectorTerms: [{tags: {cluster: c}}]
  securityGroupSelectorTerms: [{id: sg-1}]
  blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 50Gi, volumeType: gp3}}]
`

const pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    metadata: {labels: {team: ml}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g5.xlarge]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
  limits: {nvidia.com/gpu: 8}
  disruption: {consolidateAfter: 1m}
`

// read is the snapshot that YAML documents declare.
func read(tb testing.TB, documents ...string) provision.ClusterSnapshot {
	tb.Helper()
	reader, err := simulate.NewReader()
	if err != nil {
		tb.Fatal(err)
	}
	snapshot := provision.ClusterSnapshot{Now: noon, Cluster: provision.Cluster{Region: "us-east-1", CABundle: caBundle}}
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
		c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a", Zone: "us-east-1a", ZoneID: "use1-az1"}, {ID: "subnet-b", Zone: "us-east-1b", ZoneID: "use1-az2"}}
		c.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}}
	}
	return snapshot
}

// run adds a running node of the pool, made from what the snapshot declares now.
func run(snapshot *provision.ClusterSnapshot, poolName, name string, age time.Duration) (*karpv1.NodeClaim, *corev1.Node) {
	var p *karpv1.NodePool
	var c *awsv1.EC2NodeClass
	for _, one := range snapshot.NodePools {
		if one.Name == poolName {
			p = one
		}
	}
	for _, one := range snapshot.NodeClasses {
		if one.Name == p.Spec.Template.Spec.NodeClassRef.Name {
			c = one
		}
	}
	bundle := snapshot.Cluster.CABundle
	labels := map[string]string{
		karpv1.NodePoolLabelKey: poolName, corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand",
		corev1.LabelTopologyZone: "us-east-1a", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		"karpenter.k8s.aws/instance-category": "g", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true", corev1.LabelHostname: "node-" + name,
	}
	maps.Copy(labels, p.Spec.Template.Labels)
	has := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("15Gi"), "pods": resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1")}
	born := metav1.NewTime(noon.Add(-age))
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: born, Labels: labels, Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: p.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
			awsv1.AnnotationEC2NodeClassHash: c.Hash(&bundle), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
		}},
		Spec:   karpv1.NodeClaimSpec{NodeClassRef: p.Spec.Template.Spec.NodeClassRef},
		Status: karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/i-" + name, NodeName: "node-" + name, ImageID: "ami-1", Capacity: has, Allocatable: has},
	}
	for _, cond := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(cond)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: labels, CreationTimestamp: born, Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: p.Spec.Template.Spec.Taints},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	snapshot.NodeClaims, snapshot.Nodes = append(snapshot.NodeClaims, claim), append(snapshot.Nodes, node)
	return claim, node
}

// pod adds a pod with one GPU; on no node it waits.
func pod(snapshot *provision.ClusterSnapshot, name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: map[string]string{"app": name}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName:    node,
			Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1")},
				Limits:   corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	}
	for _, f := range change {
		f(p)
	}
	snapshot.Pods = append(snapshot.Pods, p)
	return p
}

// budget adds a PodDisruptionBudget that allows so many evictions.
func budget(snapshot *provision.ClusterSnapshot, app string, allowed int32) {
	one := intstr.FromInt32(1)
	snapshot.PodDisruptionBudgets = append(snapshot.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
}

func settings() engine.Settings {
	s := engine.DefaultSettings()
	s.Cluster, s.Region, s.Account = "c", "us-east-1", "111122223333"
	return s
}

func prices(tb testing.TB, families ...string) *catalog.Catalog {
	tb.Helper()
	c, err := catalog.Load()
	if err == nil && len(families) > 0 {
		c, err = c.Subset(families...)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// compare fails the test instead of returning an error.
func compare(tb testing.TB, before, after provision.ClusterSnapshot) provision.Forecast {
	tb.Helper()
	ctx, cancel := context.WithTimeout(engine.Offline(tb.Context(), settings()), time.Minute)
	defer cancel()
	types := prices(tb, "g4dn", "g5", "g6", "m5", "c6i")
	out, err := simulate.Compare(ctx, before, after, types)
	if err != nil {
		tb.Fatal(err)
	}
	if _, benchmark := tb.(*testing.B); !benchmark {
		fromReduced, err := simulate.Compare(ctx, reduced(tb, before), reduced(tb, after), types)
		if err != nil {
			tb.Fatal(err)
		}
		if diff := cmp.Diff(written(tb, out), written(tb, fromReduced)); diff != "" {
			tb.Errorf("of reduced objects the forecast is another (-full +reduced):\n%s", diff)
		}
	}
	return out
}

// replacedText is the replaced nodes as short text.
func replacedText(nodes []provision.Node) []string {
	out := []string{}
	for _, n := range nodes {
		out = append(out, fmt.Sprint(n.NodeClaim, " ", n.Reason, " ", n.Changes))
	}
	return out
}
