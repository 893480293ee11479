package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// Set-up 003: standard workers on spot and premium ones on demand, in pools of
// v1beta1 as they are written, at EKS 1.32. When the nodes have been looked at, a
// commit shortens two waits: how long empty nodes stay, and the seven days after
// which a node is replaced.
func TestSetupPingvas(t *testing.T) {
	t.Parallel()
	s := applyExample(t, "pingvas")
	s.runsThePage("Verify")
	// The two cheapest are sold out, so the third in price is launched.
	for _, kind := range []string{"g4dn.xlarge", "g4dn.2xlarge"} {
		s.limit(sandboxaws.Offering{Type: kind, CapacityType: spot}, 0)
	}
	s.creates("workloads/00-namespace.yaml")
	s.creates("workloads/models.yaml")
	standard, premium := s.creates("workloads/ai-worker.yaml"), s.creates("workloads/ai-worker-premium.yaml")
	s.refusesZero(standard)
	s.scales(standard, 1)
	s.scales(premium, 1)
	first, paid := s.landsOf(standard), s.landsOf(premium)
	s.runsThePage("Monitor")
	// Only now: before, it might take the node that was made for one of these.
	s.plainPod("either", func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"role": "gpu-worker"}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}, {Key: "tier", Value: "premium", Effect: corev1.TaintEffectNoSchedule}}
		pod.Spec.Containers[0].Resources.Limits[gpu.Resource] = resource.MustParse("1")
	})

	want := machine{
		Pool: "gpu-spot", Type: "g5.xlarge", Capacity: spot,
		Labels: map[string]string{"role": "gpu-worker", "tier": "standard"}, Taints: []string{"nvidia.com/gpu=true:NoSchedule"},
		Volume:   volume{Device: "/dev/xvda", Size: "100", Type: "gp3", IOPS: "3000", Throughput: "125", Encrypted: "true", DeletedWith: "true"},
		Metadata: metadata{Endpoint: "enabled", Tokens: "required", HopLimit: "2", IPv6: "disabled"},
		Image:    "amazon-eks-gpu-node-1.32-" + s.latest(),
	}
	first.is(want)
	first.mountsModels()
	want.Pool, want.Capacity, want.Labels["tier"], want.Taints = "gpu-premium", onDemand, "premium", []string{"tier=premium:NoSchedule"}
	paid.is(want)
	paid.mountsModels()
	if pool := s.lands("either").claim.Labels[karpv1.NodePoolLabelKey]; pool != "gpu-premium" {
		t.Errorf("a pod that tolerates both taints got a node of %s, not of the pool with the weight of 100", pool)
	}
	first.lives(7 * 24 * time.Hour)
	paid.lives(30 * 24 * time.Hour)

	second := s.interrupts(first, standard)
	if a, c := s.of.Region+"a", s.of.Region+"c"; second.instance.Zone != a && second.instance.Zone != c || second.instance.Zone == first.instance.Zone {
		t.Errorf("%v took the place of %v: want the other of zones a and c", second.instance, first.instance)
	}
	if second.claim.Labels[karpv1.CapacityTypeLabelKey] != spot {
		t.Errorf("%v is not spot", second.instance)
	}

	s.charts("monitoring/dashboard.yaml", 5)

	s.waitsFor("gpu-spot", "30s")
	s.waitsFor("gpu-premium", "1m")
	s.scales(premium, 0)
	s.expires(second, standard, 45*time.Second)
	s.zero()
	s.lasted("gpu-premium", 5*time.Second)
}

// scales sets the number of a Deployment's pods.
func (s setupSuite) scales(of *unstructured.Unstructured, replicas int) {
	s.Helper()
	patch := mergePatch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	if err := s.hand.Patch(s.Context(), of.DeepCopy(), patch); err != nil {
		s.Fatal(err)
	}
}

// refusesZero: an HPA from zero is refused, as the example's README says.
func (s setupSuite) refusesZero(of *unstructured.Unstructured) {
	s.Helper()
	hpa := func(least int32) *autoscalingv2.HorizontalPodAutoscaler {
		target := autoscalingv2.CrossVersionObjectReference{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Name: of.GetName()}
		return &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: of.GetName(), Namespace: of.GetNamespace()},
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: target, MinReplicas: &least, MaxReplicas: 20},
		}
	}
	if err := s.hand.Create(s.Context(), hpa(0), client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "minReplicas") {
		s.Errorf("an HPA from zero got %v", err)
	}
	if err := s.hand.Create(s.Context(), hpa(1), client.DryRunAll); err != nil {
		s.Errorf("an HPA from one got %v", err)
	}
}

// landsOf waits until the only pod of a Deployment runs on an initialized node
// whose NodeClaim is none of these.
func (s setupSuite) landsOf(deployment *unstructured.Unstructured, not ...string) (l landing) {
	s.Helper()
	l.setupSuite = s
	selector, _, err := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	if err != nil {
		s.Fatal(err)
	}
	s.until("the pod of "+deployment.GetName()+" runs on an initialized node", func() error {
		var pods corev1.PodList
		if err := s.hand.List(s.Context(), &pods, client.InNamespace(deployment.GetNamespace()), client.MatchingLabels(selector)); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
				continue
			}
			l.pod = pod
			if err := l.on(pod.Spec.NodeName); err != nil {
				return err
			}
			for _, old := range not {
				if l.claim.Name == old {
					return fmt.Errorf("it still runs on NodeClaim %s", old)
				}
			}
			return nil
		}
		return fmt.Errorf("there are %d pods, none running", len(pods.Items))
	})
	return l
}

// mountsModels: the instance mounts EFS, and then joins. User data is not shown.
func (l landing) mountsModels() {
	l.Helper()
	data := l.instance.UserData
	mount := strings.Index(data, "mount -t nfs4 -o nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2")
	from := strings.Index(data, "fs-0123456789abcdef.efs.ap-northeast-2.amazonaws.com:/")
	join := strings.Index(data, "/etc/eks/bootstrap.sh")
	if mount < 0 || from < mount || join < from {
		l.Errorf("the user data of %v mounts at %d from %d and joins at %d, of %d bytes", l.instance, mount, from, join, len(data))
	}
}

// lives: the node is replaced when it is so old.
func (l landing) lives(most time.Duration) {
	l.Helper()
	if d := l.claim.Spec.ExpireAfter.Duration; d == nil || *d != most {
		l.Errorf("NodeClaim %s expires after %v, not %s", l.claim.Name, d, most)
	}
}

// interrupts warns a spot node as EC2 does two minutes before it takes it, and
// returns where its pod runs when the engine has ended the node itself.
func (s setupSuite) interrupts(old landing, deployment *unstructured.Unstructured) landing {
	s.Helper()
	warned := time.Now()
	if err := s.AWS.Interrupt(old.instance.ID); err != nil {
		s.Fatal(err)
	}
	now := s.landsOf(deployment, old.claim.Name)
	s.Logf("its pod runs elsewhere %s after the warning", since(warned))
	s.until("the engine has ended the node", func() error {
		err := s.hand.Get(s.Context(), client.ObjectKeyFromObject(&old.claim), &karpv1.NodeClaim{})
		if err == nil {
			return errors.New("its NodeClaim is there")
		}
		return client.IgnoreNotFound(err)
	})
	ended := s.terminations(old.instance.ID)
	if len(ended) == 0 {
		s.Fatalf("%v was ended by EC2, not by the engine", old.instance)
	}
	if took := ended[0].Time.Sub(warned); took >= s.aws.Delays.Interrupt {
		s.Errorf("it was drained and ended %s after the warning", took)
	}
	return now
}

// expires shortens the week of gpu-spot. The node that was made for a week drifts;
// the one in its place is followed to its end, when its pod goes to the next though
// nothing else was wrong with it.
func (s setupSuite) expires(weekly landing, deployment *unstructured.Unstructured, after time.Duration) {
	s.Helper()
	s.edits("Replace nodes sooner, and let empty ones go sooner", "clusters/studio/nodepools.yaml",
		"expireAfter: 168h", "expireAfter: "+after.String(), "consolidateAfter: 30s", "consolidateAfter: 5s", "consolidateAfter: 60s", "consolidateAfter: 5s")
	old := s.landsOf(deployment, weekly.claim.Name)
	old.lives(after)
	now := s.landsOf(deployment, weekly.claim.Name, old.claim.Name)
	if lived := now.claim.CreationTimestamp.Sub(old.claim.CreationTimestamp.Time); lived < after {
		s.Errorf("NodeClaim %s was replaced after %s, before it expired", old.claim.Name, lived)
	}
	// Karpenter notes every other reason on the NodeClaim before it ends it.
	for _, one := range s.history.all(s.gpuSuite) {
		for _, reason := range []string{karpv1.ConditionTypeDisruptionReason, karpv1.ConditionTypeDrifted} {
			claim := one.object.(*karpv1.NodeClaim)
			if claim.Name == old.claim.Name && claim.StatusConditions().Get(reason).IsTrue() {
				s.Fatalf("NodeClaim %s was to go because of %v, not because it expired", claim.Name, claim.StatusConditions().Get(reason))
			}
		}
	}
	s.Logf("NodeClaim %s has taken the place of %s, which expired", now.claim.Name, old.claim.Name)
}

// charts: the controller serves what the dashboard asks it for, under these names and
// labels, when all of it has happened: so many series.
func (s setupSuite) charts(file string, want int) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.example(), file))
	if err != nil {
		s.Fatal(err)
	}
	requested := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		_, expression, found := strings.Cut(line, `"expr": "`)
		if !found {
			continue
		}
		_, legend, _ := strings.Cut(expression, `"legendFormat": "`)
		by := regexp.MustCompile(`^\{\{(\w+)\}\}"`).FindStringSubmatch(legend)
		for _, series := range regexp.MustCompile(`((?:karpenter|poolwright)_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expression, -1) {
			requested[series[1]] = true
			labels := strings.FieldsFunc(strings.ReplaceAll(series[2], `\"`, `"`), func(r rune) bool { return r == ',' || r == ' ' })
			for _, label := range by[min(1, len(by)):] {
				labels = append(labels, label+"=")
			}
			s.eventually(fmt.Sprintf("%s with %v is served", series[1], labels), func() error {
				if s.metric(s.metrics, series[1], labels...) <= 0 {
					return errors.New("it is not, or 0")
				}
				return nil
			})
		}
	}
	if len(requested) != want {
		s.Errorf("the dashboard asks for %v", slices.Sorted(maps.Keys(requested)))
	}
}
