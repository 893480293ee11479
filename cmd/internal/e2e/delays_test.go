package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// onlyLong skips what takes minutes.
func onlyLong(t *testing.T) {
	t.Helper()
	if os.Getenv(longEnv) != "1" {
		t.Skip("it takes minutes: make test-long runs it")
	}
}

// written is one set-up whose nodes wait as its document has it.
type written struct {
	setup string
	// files are of workloads that are created in turn, deployments those that begin with no pod.
	files, deployments []string
	// others are pods of pools without an own workload.
	others func(setupSuite)
	// pods is how many run then.
	pods int
	// after is what a pool's nodes wait, once empty.
	after map[string]time.Duration
	// before is what happens while they run.
	before func(setupSuite)
	change func(*sandbox.Config)
}

// TestDelaysAsWritten waits for the delays of the documents, which the tests of set-ups shorten by a commit.
func TestDelaysAsWritten(t *testing.T) {
	onlyLong(t)
	for _, w := range []written{
		{
			setup: "altanova", files: []string{"tinyllama.yaml"}, others: setupSuite.otherPools, pods: 3, before: setupSuite.startsColdAsWritten, change: coldStart,
			after: map[string]time.Duration{gpuPool: 5 * time.Minute, "critical": 5 * time.Minute, "general": time.Minute},
		},
		{
			setup: "timeslicing", files: []string{"gpu-workload.yaml"}, others: setupSuite.generalPod, pods: 2,
			after: map[string]time.Duration{"gpu": time.Minute, "default": time.Minute},
		},
		{setup: "piksel", files: []string{"general.yaml"}, pods: 1, after: map[string]time.Duration{"default": 30 * time.Second}},
		{
			setup: "pingvas", files: []string{"00-namespace.yaml", "models.yaml"}, deployments: []string{"ai-worker.yaml", "ai-worker-premium.yaml"}, pods: 2,
			before: setupSuite.isReclaimed, after: map[string]time.Duration{"gpu-spot": 30 * time.Second, "gpu-premium": time.Minute},
		},
		{
			setup: "baseten", files: []string{"memory.yaml", "cpu.yaml", "gpu.yaml"}, pods: 3,
			after: map[string]time.Duration{"memory": 30 * time.Second, "cpu": 30 * time.Second, "gpu": 30 * time.Second},
		},
	} {
		t.Run(w.setup, w.waits)
	}
}

func (w written) waits(t *testing.T) {
	var changes []func(*sandbox.Config)
	if w.change != nil {
		changes = append(changes, w.change)
	}
	s := applyExample(t, w.setup, changes...)
	for _, file := range w.files {
		s.creates(filepath.Join("workloads", file))
	}
	for _, file := range w.deployments {
		s.scales(s.creates(filepath.Join("workloads", file)), 1)
	}
	if w.others != nil {
		w.others(s)
	}
	s.runWorkloads(w.pods)
	if w.before != nil {
		w.before(s)
	}
	s.zero()
	for pool, after := range w.after {
		s.lasted(pool, after)
	}
}

// otherPools have a pod each, too.
func (s setupSuite) otherPools() {
	s.plainPod("everyday")
	s.plainPod("important", func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"nodepool": "critical"}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "workload", Value: "critical", Effect: corev1.TaintEffectNoSchedule}}
	})
	s.lands("everyday")
	s.lands("important")
}

// generalPod has a node of the pool default.
func (s setupSuite) generalPod() {
	s.plainPod("report", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "default"} })
	s.lands("report")
}

// runWorkloads waits until so many pods of workloads run.
func (s setupSuite) runWorkloads(want int) {
	s.Helper()
	s.until(fmt.Sprintf("%d pods run", want), func() error {
		var list corev1.PodList
		if err := s.hand.List(s.Context(), &list); err != nil {
			return err
		}
		running := 0
		for _, pod := range list.Items {
			if pod.Namespace != "kube-system" && pod.Namespace != engineSystem && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				running++
			}
		}
		if running != want {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
}

// coldStart has the sandbox take as long as the document has EC2 and the plugin take.
func coldStart(config *sandbox.Config) {
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.Nodes.Join = 2*time.Second, 18*time.Second, 40*time.Second
	config.Nodes.Plugin = 10 * time.Second
}

// part is one of a cold start.
type part struct {
	name        string
	document    time.Duration
	least, most time.Duration
	here        time.Duration
}

// outOfBounds are the parts that took less or more than they may.
func outOfBounds(parts []part) (wrong []string) {
	for _, p := range parts {
		if p.here < p.least || p.here >= p.most {
			wrong = append(wrong, fmt.Sprintf("%s: %s, and should be from %s to below %s", p.name, p.here, p.least, p.most))
		}
	}
	return wrong
}

func TestPartsOfAColdStartThatTakeTooLittleOrTooLongAreFound(t *testing.T) {
	parts := []part{
		{name: "short", least: 2 * time.Second, most: 4 * time.Second, here: time.Second},
		{name: "within", least: 2 * time.Second, most: 4 * time.Second, here: 2 * time.Second},
		{name: "long", most: 4 * time.Second, here: 4 * time.Second},
	}
	want := []string{"short: 1s, and should be from 2s to below 4s", "long: 4s, and should be from 0s to below 4s"}
	if diff := cmp.Diff(want, outOfBounds(parts)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// startsColdAsWritten compares the parts of the cold start with those of the document. The model's 30 s are no part
// of what runs here. Times of the API are whole seconds, so that a part may be up to a second shorter or longer.
func (s setupSuite) startsColdAsWritten() {
	s.Helper()
	at := s.lands("tinyllama-inference")
	created, launched := at.pod.CreationTimestamp.Time, time.Time{}
	for _, call := range s.AWS.Calls() {
		if call.Operation == "CreateFleet" && !call.Dry && slices.Contains(call.Launched, at.instance.ID) {
			launched = call.Time
		}
	}
	if launched.IsZero() {
		s.Fatalf("no CreateFleet launched %v", at.instance)
	}
	started := at.pod.Status.StartTime.Time
	const second = time.Second
	parts := []part{
		{name: "the pending pod is found, and a node requested", document: 5 * second, most: 5 * second, here: launched.Sub(created)},
		{
			name: "the node is launched and registers; EC2's, simulated to be 60 s", document: 60 * second, least: 50 * second, most: 70 * second,
			here: at.node.CreationTimestamp.Sub(launched),
		},
		{
			name: "the plugin advertises the GPU, simulated to be 10 s, and the pod is bound", document: 15 * second, least: 9 * second, most: 15 * second,
			here: started.Sub(at.node.CreationTimestamp.Time),
		},
		{name: "in all, without the model's 30 s", document: 80 * second, least: 69 * second, most: 80 * second, here: started.Sub(created)},
	}
	for _, p := range parts {
		s.Logf("cold start: %s: %s, the document %s", p.name, p.here.Round(100*time.Millisecond), p.document)
	}
	for _, wrong := range outOfBounds(parts) {
		s.Errorf("cold start: %s", wrong)
	}
	if offered := allocatableGPUs(&at.node)[gpu.Resource]; offered != 1 {
		s.Errorf("the node offers %d GPUs", offered)
	}
}

// isReclaimed has EC2 take a spot node whose pod a PodDisruptionBudget keeps on it: it goes after the two minutes of
// the notice, by nobody else, and the pod comes back elsewhere.
func (s setupSuite) isReclaimed() {
	none := intstr.FromInt32(0)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "ai-worker", Namespace: "prod"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ai-worker"}}},
	}
	s.makes(budget)
	worker := &unstructured.Unstructured{}
	worker.SetAPIVersion("apps/v1")
	worker.SetKind("Deployment")
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: "prod", Name: "ai-worker"}, worker); err != nil {
		s.Fatal(err)
	}
	from := s.landsOf(worker)
	old := from.instance
	s.reclaimed[old.ID] = true
	warned := time.Now()
	if err := s.AWS.Interrupt(old.ID); err != nil {
		s.Fatal(err)
	}
	var ended time.Time
	s.until("EC2 has taken the instance", func() error {
		for _, i := range s.AWS.Instances() {
			if i.ID == old.ID && !over(i.State) {
				return errors.New("it runs")
			}
		}
		ended = time.Now()
		return nil
	})
	took := ended.Sub(warned)
	s.Logf("EC2 took it %s after its notice", took.Round(time.Second))
	if took < s.aws.Delays.Interrupt {
		s.Errorf("the instance ended %s after the notice, before EC2 takes it", took)
	}
	for _, call := range s.terminations(old.ID) {
		if call.Time.Before(warned.Add(s.aws.Delays.Interrupt)) {
			s.Errorf("the engine ended the instance %s after the notice, although a PodDisruptionBudget keeps its pod: %+v", call.Time.Sub(warned), call)
		}
	}
	if err := s.hand.Delete(s.Context(), budget); err != nil {
		s.Fatal(err)
	}
	s.landsOf(worker, from.claim.Name)
}
