package causes_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpevents "sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/causes"
)

// recorded collects causes by the names of tests; the command's test makes text of them.
type recorded map[string][]causes.Cause

func (r recorded) compare(t *testing.T, path string) {
	t.Helper()
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, path, string(content)+"\n")
}

// gQuota is the quota of the pool's instance types.
const gQuota = "Running On-Demand G and VT instances"

// blocking are budgets that allow no node during the day.
const blocking = `disruption: {consolidateAfter: 1m, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: "0", schedule: "0 9 * * *", duration: 8h}]}`

const open = `disruption: {consolidateAfter: 1m, consolidationPolicy: WhenEmptyOrUnderutilized}`

func TestTheCauseOfAPendingPodIsFirst(t *testing.T) {
	shared := `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: shared}
spec:
  requirements: [{key: karpenter.sh/nodepool, operator: In, values: [gpu]}]
  capacity: {nvidia.com/gpu.shared: "8", nvidia.com/gpu: "0"}
`
	full := func(w *target) {
		for _, name := range []string{"gpu-a", "gpu-b", "gpu-c", "gpu-d"} {
			w.bind("runs-"+name, w.run(name, "gpu"))
		}
	}
	tests := map[string]struct {
		documents func(t *testing.T) []string
		plant     func(*target)
		want      string
	}{
		"the pool is at its limit":            {nil, full, "AtLimit"},
		"a taint that it does not tolerate":   {nil, func(w *target) { w.pod.Spec.Tolerations = nil }, "TaintNotTolerated"},
		"a zone without a subnet":             {nil, func(w *target) { w.pod.Spec.NodeSelector[corev1.LabelTopologyZone] = "us-east-1f" }, "ZoneNotOffered"},
		"an instance type that no pool has":   {nil, func(w *target) { w.pod.Spec.NodeSelector[corev1.LabelInstanceTypeStable] = "p5.48xlarge" }, "InstanceTypeNotOffered"},
		"whole GPUs of a pool that shares":    {func(*testing.T) []string { return []string{class, gpuPool, generalPool, shared} }, func(w *target) { w.share(8, true) }, "GPUSharesNotAllocatable"},
		"the quota is used up":                {nil, func(w *target) { w.quota(8, 8) }, "QuotaExceeded?"},
		"the quota is used up, as AWS stated": {nil, func(w *target) { w.quota(8, 5); w.soldOut() }, "QuotaExceeded"},
		"a pool whose creation is held":       {nil, func(w *target) { w.pod.Spec.NodeSelector[karpv1.NodePoolLabelKey] = "large"; w.hold("large", "create") }, "ChangeHeld LabelMismatch"},
		"a limit whose change is held":        {nil, func(w *target) { full(w); w.hold("gpu", "update") }, "AtLimit ChangeHeld?"},
		"empty nodes that a budget keeps": {
			func(t *testing.T) []string {
				return []string{class, with(t, with(t, gpuPool, open, blocking), "g4dn.xlarge, g5.xlarge", "g4dn.xlarge, g4dn.12xlarge"), generalPool}
			},
			func(w *target) { w.run("gpu-a", "gpu"); w.requests("nvidia.com/gpu", "4") }, "BudgetBlocking AtLimit"},
		"AWS has no capacity":                {nil, func(w *target) { w.quota(96, 8); w.soldOut() }, "InsufficientCapacity"},
		"no capacity, and no quota is known": {nil, (*target).soldOut, "InsufficientCapacity?"},
		"no capacity an hour ago":            {nil, func(w *target) { w.soldOut(); w.objects.Events[0].LastTimestamp = metav1.NewTime(noon.Add(-time.Hour)) }, "Launchable"},
		"another scheduler":                  {nil, func(w *target) { w.pod.Spec.SchedulerName = "volcano"; w.pod.Status.Conditions = nil }, "OtherScheduler"},
		"a volume in another zone":           {nil, func(w *target) { w.volumes = volumeIn("us-east-1c") }, "VolumeZone"},
		"a PersistentVolumeClaim that is not there": {nil, func(w *target) {
			w.objects.UnusableVolumeClaims = map[string]causes.VolumeClaimState{"data": causes.VolumeClaimNotFound}
		}, "VolumeClaimUnusable"},
		"more GPUs than any instance type has":   {nil, func(w *target) { w.requests("nvidia.com/gpu", "16") }, "RequestTooLarge"},
		"more memory than any instance type has": {nil, func(w *target) { w.requests("memory", "900Gi") }, "RequestTooLarge"},
	}
	found := recorded{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			var documents []string
			if tt.documents != nil {
				documents = tt.documents(t)
			}
			w := newTarget(t, documents...)
			tt.plant(w)
			found[name] = w.explainPod()
			if got := reasons(found[name]); got != tt.want {
				t.Errorf("causes %s, want %s\n%+v", got, tt.want, found[name])
			}
		})
	}
	found.compare(t, "testdata/pods.json")
}

func TestTheCauseOfANodeThatStaysIsFirst(t *testing.T) {
	bare := func(w *target, claim *karpv1.NodeClaim) { w.bind("train", claim).OwnerReferences = nil }
	tests := map[string]struct {
		pool  [2]string
		plant func(*target, *karpv1.NodeClaim)
		want  string
	}{
		"its own annotation": {plant: func(w *target, _ *karpv1.NodeClaim) {
			w.live.Nodes[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
		}, want: "DoNotDisrupt"},
		"the annotation of its claim": {plant: func(_ *target, c *karpv1.NodeClaim) { c.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true" }, want: "DoNotDisrupt"},
		"the annotation of its pod": {plant: func(w *target, c *karpv1.NodeClaim) {
			w.bind("train", c).Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
		}, want: "DoNotDisrupt"},
		"a PodDisruptionBudget":     {plant: func(w *target, c *karpv1.NodeClaim) { w.bind("train", c); w.protect("train") }, want: "PodDisruptionBudget"},
		"a budget that is blocking": {pool: [2]string{open, blocking}, want: "BudgetBlocking"},
		"consolidateAfter has not passed": {
			pool: [2]string{"consolidateAfter: 1m", "consolidateAfter: 30m"},
			plant: func(_ *target, c *karpv1.NodeClaim) {
				c.Status.LastPodEventTime = metav1.NewTime(noon.Add(-10 * time.Minute))
			}, want: "ConsolidateAfter"},
		"a pod without a controller":                        {plant: bare, want: "BarePod NotEmpty?"},
		"a static pool":                                     {pool: [2]string{"limits: {nvidia.com/gpu: 4}", "replicas: 1"}, want: "StaticPool"},
		"GPUs that are not there yet":                       {plant: func(w *target, c *karpv1.NodeClaim) { w.share(4, false); w.initializes(c) }, want: "GPUsInitializing"},
		"GPUs in a pool that no configuration has any more": {plant: func(w *target, c *karpv1.NodeClaim) { w.initializes(c) }, want: "GPUsInitializing"},
		"its turn as a drifted node": {plant: func(w *target, c *karpv1.NodeClaim) {
			other := w.run("gpu-b", "gpu")
			for i, one := range []*karpv1.NodeClaim{other, c} {
				one.Annotations[karpv1.NodePoolHashAnnotationKey] = "old"
				drifted(one, noon.Add(time.Duration(i-10)*time.Minute))
			}
		}, want: "AwaitingDisruption"},
		"a drifted node under a blocking budget": {pool: [2]string{open, blocking}, plant: func(_ *target, c *karpv1.NodeClaim) {
			c.Annotations[karpv1.NodePoolHashAnnotationKey] = "old"
			drifted(c, noon.Add(-time.Minute))
		}, want: "BudgetBlocking"},
		"WhenEmpty, and a pod": {pool: [2]string{"WhenEmptyOrUnderutilized", "WhenEmpty"}, plant: func(w *target, c *karpv1.NodeClaim) { w.bind("train", c) }, want: "WhenEmpty"},
		"WhenEmpty, and a pod that must not be disrupted": {pool: [2]string{"WhenEmptyOrUnderutilized", "WhenEmpty"}, plant: func(w *target, c *karpv1.NodeClaim) {
			w.bind("train", c).Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
		}, want: "WhenEmpty DoNotDisrupt"},
		"nothing":                   {want: "Disruptable"},
		"a pod that fits elsewhere": {plant: func(w *target, c *karpv1.NodeClaim) { w.bind("train", c) }, want: "NotEmpty?"},
		"a pod that fits nowhere cheaper": {plant: func(w *target, c *karpv1.NodeClaim) {
			w.bind("train", c)
			w.event(karpevents.Unconsolidatable, "Node", "", c.Status.NodeName)
		}, want: "Unconsolidatable"},
		"consolidation that is off": {pool: [2]string{"consolidateAfter: 1m", "consolidateAfter: Never"}, want: "ConsolidateAfterNever"},
		"its deletion": {plant: func(_ *target, c *karpv1.NodeClaim) {
			at := metav1.NewTime(noon)
			c.DeletionTimestamp, c.Finalizers = &at, []string{"karpenter.sh/termination"}
			c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, "Empty", "Empty")
		}, want: "Terminating"},
	}
	found := recorded{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		t.Run(name, func(t *testing.T) {
			document := gpuPool
			if tt.pool[0] != "" {
				document = with(t, document, tt.pool[0], tt.pool[1])
			}
			w := newTarget(t, class, document, generalPool)
			claim := w.run("gpu-a", "gpu")
			if tt.plant != nil {
				tt.plant(w, claim)
			}
			found[name] = w.explainNode(claim)
			if got := reasons(found[name]); got != tt.want {
				t.Errorf("causes %s, want %s\n%+v", got, tt.want, found[name])
			}
		})
	}
	found.compare(t, "testdata/nodes.json")
}

func TestWhatKeepsAPoolFromLaunchingIsNamed(t *testing.T) {
	tests := map[string]struct {
		plant func(*target)
		want  string
	}{
		"nothing":              {func(*target) {}, "Launchable"},
		"its limit is reached": {func(w *target) { w.pool("gpu").Spec.Limits["nodes"] = resource.MustParse("1"); w.run("gpu-a", "gpu") }, "AtLimit"},
		"it is being deleted":  {func(w *target) { at := metav1.NewTime(noon); w.pool("gpu").DeletionTimestamp = &at }, "PoolNotReady"},
		"its class is not ready": {func(w *target) {
			w.pool("gpu").StatusConditions().SetFalse("NodeClassReady", "NodeClassNotReady", "no subnets")
		}, "PoolNotReady"},
		"its GPUs did not come": {(*target).backsOff, "BackOff"},
		"a back-off that has ended": {func(w *target) {
			w.backsOff()
			w.objects.Plugins[0].Status.Pools[0].BackoffUntil = &metav1.Time{Time: noon}
		}, "Launchable"},
		"its claims found no capacity":             {func(w *target) { w.event(karpevents.InsufficientCapacityError, "NodeClaim", "", "gpu-x7k2p") }, "InsufficientCapacity?"},
		"claims of a pool whose name begins alike": {func(w *target) { w.event(karpevents.InsufficientCapacityError, "NodeClaim", "", "gpu-large-x7k2p") }, "Launchable"},
		"a change that is held":                    {func(w *target) { w.hold("gpu", "update") }, "ChangeHeld?"},
		"a deletion that is held":                  {func(w *target) { w.hold("gpu", "delete") }, "Launchable"},
		"replicas":                                 {func(w *target) { n := int64(2); w.pool("gpu").Spec.Replicas = &n }, "StaticPool"},
		"the engine is off":                        {func(w *target) { w.objects.Cluster.Spec.Engine.Mode = v1alpha1.EngineOff }, "EngineNotRunning"},
		"the engine is blocked": {func(w *target) {
			w.objects.Cluster.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "OtherKarpenterRunning"}, {Type: "EngineBlocked", Status: metav1.ConditionTrue}}
		}, "EngineNotRunning"},
	}
	found := recorded{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			w := newTarget(t)
			w.pool("gpu").StatusConditions().SetTrue("ValidationSucceeded")
			w.pool("gpu").StatusConditions().SetTrue("NodeClassReady")
			tests[name].plant(w)
			found[name] = causes.Pool(w.read(), w.pool("gpu"))
			if got := reasons(found[name]); got != tests[name].want {
				t.Errorf("causes %s, want %s\n%+v", got, tests[name].want, found[name])
			}
		})
	}
	found.compare(t, "testdata/pools.json")
}

// quota is what the account has of the pool's instance types.
func (w *target) quota(limit, used int64) {
	w.objects.Cluster.Status.AWS = &v1alpha1.AWSStatus{Quotas: []v1alpha1.Quota{{Name: gQuota, LimitVCPUs: limit, UsedVCPUs: used}}}
}

// soldOut is Karpenter's event on the pod.
func (w *target) soldOut() { w.event(karpevents.InsufficientCapacityError, "Pod", "ml", "train") }

// hold adds a change of a NodePool that waits for a confirmation.
func (w *target) hold(pool, action string) {
	s := v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}
	s.Status.Pending = []v1alpha1.PendingChange{{Object: "NodePool.karpenter.sh/" + pool, Action: action, HeldBy: []string{"QuotaExceeded"}, ConfirmationToken: "quota-1-ab", Reason: "it needs more vCPUs than the quota has"}}
	w.objects.Syncs = append(w.objects.Syncs, s)
}

// backsOff has the DevicePlugin launch no node of the pool for ten minutes.
func (w *target) backsOff() {
	w.share(4, false)
	w.objects.Plugins[0].Status.Pools = []v1alpha1.GPUPoolStatus{{Name: "gpu", Config: "shared", Failures: 3, BackoffUntil: &metav1.Time{Time: noon.Add(10 * time.Minute)}}}
}

// initializes has the node of a claim wait for its GPUs.
func (w *target) initializes(claim *karpv1.NodeClaim) {
	delete(w.live.Nodes[0].Labels, karpv1.NodeInitializedLabelKey)
	w.live.Nodes[0].Spec.Taints = append(w.live.Nodes[0].Spec.Taints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
	claim.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeInitialized, "StartupTaintsExist", "")
	for i := range claim.Status.Conditions {
		claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(noon.Add(-3 * time.Minute))
	}
}

// drifted marks a claim as drifted since a time.
func drifted(claim *karpv1.NodeClaim, since time.Time) {
	claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodePoolDrifted", "")
	for i := range claim.Status.Conditions {
		if claim.Status.Conditions[i].Type == karpv1.ConditionTypeDrifted {
			claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(since)
		}
	}
}

// volumeIn is a volume of the EBS CSI driver's.
func volumeIn(zone string) []diagnosis.Volume {
	return []diagnosis.Volume{{Claim: "data", Terms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
	}}}}}
}
