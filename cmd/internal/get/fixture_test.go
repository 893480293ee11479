package get

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func now() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

func types(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// claim is one of a pool, which has registered as the Node of its name with so many GPUs.
func claim(name, pool, instanceType, capacityType string, change ...func(*karpv1.NodeClaim)) karpv1.NodeClaim {
	c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(2 * time.Hour), Labels: map[string]string{
		karpv1.NodePoolLabelKey: pool, corev1.LabelInstanceTypeStable: instanceType, karpv1.CapacityTypeLabelKey: capacityType,
		corev1.LabelTopologyZone: "us-east-1a", corev1.LabelTopologyRegion: "us-east-1",
	}}}
	c.Status.NodeName = "ip-" + name
	c.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		condition(kind, metav1.ConditionTrue, kind, "")(&c)
	}
	for _, ch := range change {
		ch(&c)
	}
	return c
}

// condition sets one of a NodeClaim.
func condition(kind string, status metav1.ConditionStatus, reason, message string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		for i := range c.Status.Conditions {
			if c.Status.Conditions[i].Type == kind {
				c.Status.Conditions = append(c.Status.Conditions[:i], c.Status.Conditions[i+1:]...)
				break
			}
		}
		c.Status.Conditions = append(c.Status.Conditions, statusCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

// launching is a claim of which there is no instance yet.
func launching(reason, message string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.NodeName = ""
		delete(c.Labels, corev1.LabelInstanceTypeStable)
		condition(karpv1.ConditionTypeLaunched, metav1.ConditionUnknown, reason, message)(c)
	}
}

func deleted(c *karpv1.NodeClaim) {
	at := ago(time.Minute)
	c.DeletionTimestamp, c.Finalizers = &at, []string{"karpenter.sh/termination"}
}

// node is that of a claim, with so many GPUs.
func node(claim, gpus string, change ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-" + claim, CreationTimestamp: ago(time.Hour), Labels: map[string]string{karpv1.NodePoolLabelKey: "gpu"}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse(gpus)}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	for _, ch := range change {
		ch(&n)
	}
	return n
}

// pool is a NodePool that is ready, with limits such as "nvidia.com/gpu=4/16".
func nodePool(name string, limits ...string) karpv1.NodePool {
	p := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(72 * time.Hour)}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Limits, p.Status.Resources = karpv1.Limits{}, corev1.ResourceList{}
	for _, l := range limits {
		name, numbers, _ := strings.Cut(l, "=")
		used, limit, _ := strings.Cut(numbers, "/")
		p.Spec.Limits[corev1.ResourceName(name)], p.Status.Resources[corev1.ResourceName(name)] = resource.MustParse(limit), resource.MustParse(used)
	}
	p.Spec.Disruption = karpv1.Disruption{ConsolidateAfter: karpv1.MustParseNillableDuration("5m"), ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized}
	p.Status.Conditions = []statusCondition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	return p
}

// sync is one that is ready at a revision.
func readySync(name string, change ...func(*v1alpha1.Sync)) v1alpha1.Sync {
	s := v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: name, CreationTimestamp: ago(240 * time.Hour)}}
	s.Status = v1alpha1.SyncStatus{
		LastAppliedRevision: "main@sha1:e15a32f0000000000000000000000000000000aa", LastAttemptedRevision: "main@sha1:e15a32f0000000000000000000000000000000aa", Objects: 31,
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "applied revision main@sha1:e15a32f"},
			{Type: "Drifted", Status: metav1.ConditionFalse, Reason: "InSync"},
		},
	}
	for _, ch := range change {
		ch(&s)
	}
	return s
}

// newObjects are those of a cluster in which there is something of everything.
func newObjects() Objects {
	until := metav1.NewTime(now().Add(3 * time.Minute))
	replaced := &v1alpha1.ReviewedDisruption{NodesReplaced: 3}
	merged := ago(25 * time.Minute)
	return Objects{
		Cluster: reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
			c.Spec.Region = "us-east-1"
			c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
			c.Status.AWS = &v1alpha1.AWSStatus{
				ObservedAt:  ago(90 * time.Second),
				Differences: []v1alpha1.Difference{{Resource: "Rule.events/us-east-1/SpotInterruption", Message: "state: DISABLED, declared ENABLED"}},
				Unknown:     []v1alpha1.UnknownResource{{Resource: "Queue.sqs/us-east-1/dev", Reason: "sqs:GetQueueAttributes is denied"}},
				Quotas:      []v1alpha1.Quota{{Name: "Running On-Demand G and VT instances", LimitVCPUs: 96, UsedVCPUs: 48}, {Name: "All G and VT Spot Instance Requests", LimitVCPUs: 4, UsedVCPUs: 8}},
			}
		}),
		Syncs: []v1alpha1.Sync{
			readySync("dev", func(s *v1alpha1.Sync) {
				s.Status.PullRequests = &v1alpha1.PullRequestsStatus{Open: 1, Items: []v1alpha1.PullRequestStatus{
					{Number: 41, Phase: v1alpha1.PullRequestPlanned, Head: "33145d4000000000000000000000000000000000", Headline: "1 object changes, 3 of 6 nodes are replaced", Reviewed: replaced},
					{Number: 38, Phase: v1alpha1.PullRequestDone, Head: "e15a32f0000000000000000000000000000000aa", Headline: "Applied", MergedTime: &merged},
				}}
			}),
			readySync("edge", func(s *v1alpha1.Sync) {
				s.Spec.Suspend = true
				s.Annotations = map[string]string{v1alpha1.SuspendReasonAnnotation: "the audit", v1alpha1.SuspendUntilAnnotation: "2026-11-27T18:00:00Z"}
				s.Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NodeReplacementHeld", Message: "NodePool/gpu waits for a confirmation"}
				s.Status.Pending = []v1alpha1.PendingChange{{Object: "NodePool.karpenter.sh/gpu", Action: "update", HeldBy: []string{"MaxNodesReplaced"}, Reason: "3 nodes would be replaced, 2 are allowed", Source: "clusters/edge/gpu.yaml:12"}}
				s.Status.PendingOmitted = 2
				s.Status.Ignored = []v1alpha1.IgnoredFields{{Object: "Deployment.apps/models/web", Fields: []string{"spec.replicas", "spec.paused"}, Source: "clusters/edge/web.yaml:4"}}
			}),
		},
		Plugins: []v1alpha1.DevicePlugin{{Status: v1alpha1.DevicePluginStatus{Pools: []v1alpha1.GPUPoolStatus{
			{Name: "gpu", UnhealthyNodes: []v1alpha1.UnhealthyGPUNode{{Node: "ip-gpu-d", Reason: "NoDriver", Message: "nvidia-smi is not on the node"}}},
			{Name: "held", BackoffUntil: &until},
		}}}},
		Pools: []karpv1.NodePool{nodePool("held"), nodePool("gpu", "cpu=24/100", "nvidia.com/gpu=4/16"), nodePool("general")},
		Claims: []karpv1.NodeClaim{
			claim("gpu-a", "gpu", "g4dn.xlarge", "on-demand", condition(karpv1.ConditionTypeDrifted, metav1.ConditionTrue, "NodePoolDrifted", "")),
			claim("gpu-b", "gpu", "g5.2xlarge", "spot"),
			claim("gpu-c", "gpu", "g5.xlarge", "spot", launching("InsufficientCapacity", "no spot capacity of g5.xlarge")),
			claim("gpu-d", "gpu", "g4dn.xlarge", "on-demand", condition(karpv1.ConditionTypeInitialized, metav1.ConditionUnknown, "StartupTaintsExist", "readiness.k8s.io/poolwright-gpu")),
			claim("gpu-e", "gpu", "g4dn.xlarge", "on-demand", deleted, condition(karpv1.ConditionTypeDisruptionReason, metav1.ConditionTrue, "Empty", ""), condition(karpv1.ConditionTypeDrained, metav1.ConditionUnknown, "Draining", "2 pods are evicted")),
			claim("web-a", "general", "m99.large", "on-demand"),
		},
		Nodes: []corev1.Node{
			node("gpu-a", "1"), node("gpu-b", "1"), node("gpu-d", "0"), node("gpu-e", "1"),
			node("web-a", "0", func(n *corev1.Node) { n.Labels[karpv1.NodePoolLabelKey] = "general" }),
		},
		Pods: []Pod{
			{Namespace: "ml", Name: "train-0", Node: "ip-gpu-a", GPUs: gpu.Resources{"nvidia.com/gpu": 1}, DoNotDisrupt: true},
			{Namespace: "kube-system", Name: "nvidia-plugin", Node: "ip-gpu-b", DaemonSet: true},
			{Namespace: "web", Name: "shop-1", Node: "ip-web-a"},
			{Namespace: "ml", Name: "train-1", GPUs: gpu.Resources{"nvidia.com/gpu": 2}},
			{Namespace: "web", Name: "shop-2"},
		},
	}
}
