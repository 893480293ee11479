package causes_test

import (
	"context"
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
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/causes"
)

// noon is a Friday.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: nodes}
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
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: nodes}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g5.xlarge]}
  limits: {nvidia.com/gpu: 4}
  disruption: {consolidateAfter: 1m, consolidationPolicy: WhenEmptyOrUnderutilized}
`

const generalPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: nodes}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
`

// target is a cluster with a pool of GPUs and a general one, and what is planted in it.
type target struct {
	testing.TB
	live    provision.ClusterSnapshot
	objects causes.Objects
	pod     *corev1.Pod
	volumes []diagnosis.Volume
}

// newTarget reads the documents, or where there are none the class and the two pools.
func newTarget(tb testing.TB, documents ...string) *target {
	tb.Helper()
	if len(documents) == 0 {
		documents = []string{class, gpuPool, generalPool}
	}
	reader, err := simulate.NewReader()
	if err != nil {
		tb.Fatal(err)
	}
	w := &target{TB: tb, live: provision.ClusterSnapshot{Now: noon, Cluster: provision.Cluster{Region: "us-east-1"}}}
	for _, text := range documents {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			tb.Fatal(err)
		}
		if err := reader.Add(&w.live, object); err != nil {
			tb.Fatal(err)
		}
	}
	for _, c := range w.live.NodeClasses {
		c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a", Zone: "us-east-1a", ZoneID: "use1-az1"}, {ID: "subnet-b", Zone: "us-east-1b", ZoneID: "use1-az2"}}
		c.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}}
		c.StatusConditions().SetTrue("Ready")
	}
	w.pod = pending("train")
	w.objects.Cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.ClusterSpec{Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineEmbedded}}}
	w.objects.Cluster.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "EngineRunning"}}
	return w
}

// with is a document with another text in the place of one that must be in it.
func with(tb testing.TB, document, old, replacement string) string {
	tb.Helper()
	if !strings.Contains(document, old) {
		tb.Fatalf("%q is not in the document", old)
	}
	return strings.Replace(document, old, replacement, 1)
}

// pending is a pod with one GPU that kube-scheduler found no node for.
func pending(name string) *corev1.Pod {
	yes := true
	list := corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(noon.Add(-6 * time.Minute)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName, NodeSelector: map[string]string{},
			Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
}

// requests has the pod request so much of a resource.
func (w *target) requests(name corev1.ResourceName, quantity string) {
	r := w.pod.Spec.Containers[0].Resources
	r.Requests[name], r.Limits[name] = resource.MustParse(quantity), resource.MustParse(quantity)
}

func (w *target) pool(name string) *karpv1.NodePool {
	for _, p := range w.live.NodePools {
		if p.Name == name {
			return p
		}
	}
	w.Fatalf("there is no pool %s", name)
	return nil
}

// run adds a g4dn.xlarge of the pool that was initialized an hour ago.
func (w *target) run(name, pool string) *karpv1.NodeClaim {
	p, bundle := w.pool(pool), ""
	labels := map[string]string{
		karpv1.NodePoolLabelKey: pool, corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelTopologyZone: "us-east-1a",
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true", corev1.LabelHostname: "node-" + name,
	}
	maps.Copy(labels, p.Spec.Template.Labels)
	has := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("15Gi"), "pods": resource.MustParse("29"), "nvidia.com/gpu": resource.MustParse("1")}
	born := metav1.NewTime(noon.Add(-time.Hour))
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: born, Labels: labels, Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: p.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
			awsv1.AnnotationEC2NodeClassHash: w.live.NodeClasses[0].Hash(&bundle), awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
		}},
		Spec:   karpv1.NodeClaimSpec{NodeClassRef: p.Spec.Template.Spec.NodeClassRef},
		Status: karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/i-" + name, NodeName: "node-" + name, ImageID: "ami-1", Capacity: has, Allocatable: has},
	}
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(kind)
	}
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = born
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: labels, CreationTimestamp: born, Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: p.Spec.Template.Spec.Taints},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	w.live.NodeClaims, w.live.Nodes = append(w.live.NodeClaims, claim), append(w.live.Nodes, node)
	return claim
}

// bind adds a pod with a GPU that runs on the node of a NodeClaim.
func (w *target) bind(name string, claim *karpv1.NodeClaim) *corev1.Pod {
	p := pending(name)
	p.Spec.NodeName, p.Status = claim.Status.NodeName, corev1.PodStatus{Phase: corev1.PodRunning}
	w.live.Pods = append(w.live.Pods, p)
	return p
}

// protect adds a PodDisruptionBudget that allows no eviction of a pod.
func (w *target) protect(app string) {
	one := intstr.FromInt32(1)
	w.live.PodDisruptionBudgets = append(w.live.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "ml"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	})
}

// event adds one of five minutes ago. Its text must not matter.
func (w *target) event(reason, kind, namespace, name string) {
	w.objects.Events = append(w.objects.Events, corev1.Event{
		Reason: reason, Message: "a text that nothing is decided by", LastTimestamp: metav1.NewTime(noon.Add(-5 * time.Minute)),
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name},
	})
}

// share has a DevicePlugin make shares of the GPUs of the pool.
func (w *target) share(replicas int32, renamed bool) {
	w.objects.Plugins = []v1alpha1.DevicePlugin{{
		ObjectMeta: metav1.ObjectMeta{Name: "nvidia"},
		Spec:       v1alpha1.DevicePluginSpec{Configs: []v1alpha1.DevicePluginConfig{{Name: "shared", NodePools: []string{"gpu"}, TimeSlicing: &v1alpha1.TimeSlicing{Replicas: replicas, RenameByDefault: renamed}}}},
	}}
}

// offline is a context with the engine's options.
func (w *target) offline() context.Context {
	s := engine.DefaultSettings()
	s.Cluster, s.Region, s.Account = "c", "us-east-1", "111122223333"
	return engine.Offline(w.Context(), s)
}

// read are the objects, as the command reads them.
func (w *target) read() causes.Objects {
	o := w.objects
	o.Now, o.Pools, o.Claims, o.Nodes, o.Pods = noon, w.live.NodePools, w.live.NodeClaims, w.live.Nodes, w.live.Pods
	return o
}

// explainPod are the causes of the target's pod.
func (w *target) explainPod() []causes.Cause {
	w.Helper()
	all, err := catalog.Load()
	if err != nil {
		w.Fatal(err)
	}
	types, err := all.Subset("g4dn", "g5", "m5")
	if err != nil {
		w.Fatal(err)
	}
	w.live.Pods = append(w.live.Pods, w.pod)
	found, err := diagnosis.Pod(w.offline(), w.live, types, w.pod, w.volumes)
	if err != nil {
		w.Fatal(err)
	}
	budgets, err := simulate.Budgets(w.live)
	if err != nil {
		w.Fatal(err)
	}
	return causes.Pod(w.read(), w.pod, found, budgets)
}

// explainNode are the causes of the node of a NodeClaim.
func (w *target) explainNode(claim *karpv1.NodeClaim) []causes.Cause {
	w.Helper()
	candidate, err := simulate.DisruptionCandidate(w.offline(), w.live, claim.Name)
	if err != nil {
		w.Fatal(err)
	}
	return causes.Node(w.read(), claim, candidate)
}

// reasons are those of causes, with a question mark behind the possible ones.
func reasons(found []causes.Cause) string {
	var out []string
	for _, c := range found {
		text := string(c.Reason)
		if c.Possible {
			text += "?"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}
