package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const (
	spot     = karpv1.CapacityTypeSpot
	onDemand = karpv1.CapacityTypeOnDemand
)

// addPool makes a copy of the example's critical pool that only this test's pods
// go to and that offers the given instance types, which no other test asks for.
// Its nodes stay until the test takes them away.
func (s engineSuite) addPool(name string, capacity []string, types ...string) {
	s.Helper()
	like := s.pools["critical"]
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *like.Spec.DeepCopy()}
	pool.Spec.Limits = nil
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(karpv1.Never)
	pool.Spec.Template.Labels = map[string]string{"nodepool": name}
	pool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "test", Value: name, Effect: corev1.TaintEffectNoSchedule}}
	in := func(key string, values []string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelInstanceTypeStable, types), in(karpv1.CapacityTypeLabelKey, capacity),
	}
	if err := s.hand.Create(s.Context(), pool); err != nil {
		s.Fatal(err)
	}
	s.eventually("pool "+name+" is ready", func() error {
		if err := s.hand.Get(s.Context(), client.ObjectKey{Name: name}, pool); err != nil {
			return err
		}
		if !pool.StatusConditions().Root().IsTrue() {
			return fmt.Errorf("its conditions are %+v", pool.Status.Conditions)
		}
		return nil
	})
}

// podSpec asks for a node of the pool for itself alone.
func podSpec(pool string) corev1.PodSpec {
	need := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")}
	if pool == gpuPool {
		need["nvidia.com/gpu"] = resource.MustParse("1")
	}
	grace := int64(1)
	return corev1.PodSpec{
		NodeSelector:                  map[string]string{"nodepool": pool},
		Tolerations:                   []corev1.Toleration{{Key: "test", Operator: corev1.TolerationOpExists}, {Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/inference:1",
			Resources: corev1.ResourceRequirements{Requests: need, Limits: need},
		}},
	}
}

// gpuPool is the example's pool with GPUs.
const gpuPool = "gpu-inference"

// addPod creates a pod of the pool's name that needs a node of it.
func (s engineSuite) addPod(pool string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: "default"}, Spec: podSpec(pool)}
	if err := s.hand.Create(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
}

// dropPod deletes it.
func (s engineSuite) dropPod(pool string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: "default"}}
	if err := s.hand.Delete(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
}

// addDeployment keeps some such pods alive, each on a node of its own.
func (s engineSuite) addDeployment(pool string, replicas int32) {
	s.Helper()
	labels := map[string]string{"app": pool}
	spec := podSpec(pool)
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: corev1.LabelHostname,
		}},
	}}
	err := s.hand.Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	})
	if err != nil {
		s.Fatal(err)
	}
}

// pods lists those that ask for the pool.
func (s engineSuite) pods(pool string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := s.hand.List(s.Context(), &list, client.InNamespace("default")); err != nil {
		return nil, err
	}
	var found []corev1.Pod
	for _, pod := range list.Items {
		if pod.Spec.NodeSelector["nodepool"] == pool {
			found = append(found, pod)
		}
	}
	return found, nil
}

// claims lists the pool's NodeClaims.
func (s engineSuite) claims(pool string) ([]karpv1.NodeClaim, error) {
	var list karpv1.NodeClaimList
	err := s.hand.List(s.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	return list.Items, err
}

// living are the pool's instances that cost money.
func (s engineSuite) living(pool string) []sandboxaws.Instance {
	var found []sandboxaws.Instance
	for _, i := range s.AWS.Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == pool && !over(i.State) {
			found = append(found, i)
		}
	}
	return found
}

// over is the state of an instance that nobody pays for any more.
func over(state sandboxaws.State) bool {
	return state == sandboxaws.ShuttingDown || state == sandboxaws.Terminated
}

// nodeWithPod returns the pool's only instance, or says how the pool is not as it
// should be: one NodeClaim, one instance, which is the claim's, and one pod, which
// runs there.
func (s engineSuite) nodeWithPod(pool string) (sandboxaws.Instance, error) {
	claims, err := s.claims(pool)
	if err != nil {
		return sandboxaws.Instance{}, err
	}
	pods, err := s.pods(pool)
	if err != nil {
		return sandboxaws.Instance{}, err
	}
	living := s.living(pool)
	if len(claims) != 1 || len(living) != 1 || len(pods) != 1 {
		return sandboxaws.Instance{}, fmt.Errorf("%d NodeClaims, instances %v, %d pods", len(claims), living, len(pods))
	}
	claim, pod := claims[0], pods[0]
	if !strings.HasSuffix(claim.Status.ProviderID, "/"+living[0].ID) || pod.Spec.NodeName != claim.Status.NodeName || pod.Status.Phase != corev1.PodRunning {
		return sandboxaws.Instance{}, fmt.Errorf("instance %v, NodeClaim of %q with node %q, pod %s on %q", living[0], claim.Status.ProviderID, claim.Status.NodeName, pod.Status.Phase, pod.Spec.NodeName)
	}
	return living[0], nil
}

// waitForNodeWithPod waits for that.
func (s engineSuite) waitForNodeWithPod(pool string) (only sandboxaws.Instance) {
	s.Helper()
	s.eventually("pool "+pool+" has one node with its pod", func() (err error) {
		only, err = s.nodeWithPod(pool)
		return err
	})
	return only
}

// movesFrom waits until a pod of the pool runs on another instance. Traces of the
// old one may still be there: see nothingLeaks.
func (s engineSuite) movesFrom(pool string, old sandboxaws.Instance) (now sandboxaws.Instance) {
	s.Helper()
	s.within(2*waitTimeout, "pool "+pool+" has a pod elsewhere than on "+old.ID, func() error {
		pods, err := s.pods(pool)
		if err != nil {
			return err
		}
		for _, i := range s.living(pool) {
			for _, pod := range pods {
				if i.ID != old.ID && pod.Spec.NodeName == i.DNSName && pod.Status.Phase == corev1.PodRunning {
					now = i
					return nil
				}
			}
		}
		return fmt.Errorf("instances %v, %d pods", s.living(pool), len(pods))
	})
	return now
}

// fleets are the launches that were tried for an instance type.
func (s engineSuite) fleets(kind string) (tried []sandboxaws.Call) {
	for _, call := range s.AWS.Calls() {
		if call.Operation == "CreateFleet" && !call.Dry && strings.Contains(call.Params, "InstanceType="+kind+" ") {
			tried = append(tried, call)
		}
	}
	return tried
}

// terminations are the calls that ended an instance.
func (s engineSuite) terminations(id string) (calls []sandboxaws.Call) {
	for _, call := range s.AWS.Calls() {
		if call.Operation == "TerminateInstances" && !call.Dry && strings.Contains(call.Params, id) {
			calls = append(calls, call)
		}
	}
	return calls
}

// expectEvent waits for an event about the object of that name, with the reason, and
// whose message holds the words.
func (s engineSuite) expectEvent(name, reason string, texts ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("an event %s of %s", reason, name), func() error {
		var events corev1.EventList
		if err := s.hand.List(s.Context(), &events); err != nil {
			return err
		}
		var observed []string
		for _, e := range events.Items {
			if !strings.HasPrefix(e.InvolvedObject.Name, name) {
				continue
			}
			lacks := func(text string) bool { return !strings.Contains(e.Message, text) }
			if e.Reason == reason && !slices.ContainsFunc(texts, lacks) {
				return nil
			}
			observed = append(observed, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are only %q", observed)
	})
}

// inject makes AWS fail until lifted, or until the test ends.
func (s engineSuite) inject(f sandboxaws.Fault) (lift func()) {
	s.Helper()
	lift, err := s.AWS.Inject(f)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(lift)
	return lift
}

// limit bounds the capacity of an offering until the test ends.
func (s engineSuite) limit(o sandboxaws.Offering, most int) {
	s.Helper()
	if err := s.AWS.SetCapacity(o, most); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.AWS.SetCapacity(o, -1); err != nil {
			s.Error(err)
		}
	})
}

// since is how long ago, rounded for a log.
func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }
