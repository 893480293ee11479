package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/engine"
)

const (
	paceVariable     = "POOLWRIGHT_BENCH_PACE"
	resultPrefix     = "measured "
	consolidateAfter = 3 * time.Second
	// together is how many nodes become empty at once in the second row.
	together = 20
)

// times are what was measured, by row.
type times struct {
	// Launch is from the creation of a pod to the request for its instance.
	Launch []time.Duration
	// One and Twenty are from the end of consolidateAfter to the last request that terminates.
	One, Twenty []time.Duration
}

// BenchmarkNodes measures how long after a pod its instance is requested, and how long after
// consolidateAfter an empty node's instance is terminated, for one node and for twenty that
// become empty together, at either pace. Each pace has a process of its own, since a process
// has one engine.
func BenchmarkNodes(b *testing.B) {
	rounds := 5
	for b.Loop() {
		fast, stock := measure(b, engine.PaceFast, rounds), measure(b, engine.PaceStock, rounds)
		for _, row := range []struct {
			name        string
			fast, stock []time.Duration
		}{{"launch", fast.Launch, stock.Launch}, {"one", fast.One, stock.One}, {"twenty", fast.Twenty, stock.Twenty}} {
			b.ReportMetric(median(row.fast).Seconds(), row.name+"-fast-s")
			b.ReportMetric(slices.Max(row.fast).Seconds(), row.name+"-fast-max-s")
			b.ReportMetric(median(row.stock).Seconds(), row.name+"-stock-s")
			b.ReportMetric(median(row.stock).Seconds()/median(row.fast).Seconds(), row.name+"-stock/fast")
			b.Logf("%s: fast %v, stock %v", row.name, row.fast, row.stock)
		}
	}
}

func median(of []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

func measure(b *testing.B, pace engine.Pace, rounds int) times {
	b.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestTimesAtAPace$", "-test.timeout=25m", "-test.v")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", paceVariable, pace, rounds))
	out, err := child.CombinedOutput()
	if err != nil {
		b.Fatalf("at the pace %s: %v\n%s", pace, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if result, ok := strings.CutPrefix(line, resultPrefix); ok {
			var t times
			if err := json.Unmarshal([]byte(result), &t); err != nil {
				b.Fatal(err)
			}
			return t
		}
	}
	b.Fatalf("at the pace %s nothing was measured:\n%s", pace, out)
	return times{}
}

// TestTimesAtAPace is the benchmark's process for one pace.
func TestTimesAtAPace(t *testing.T) {
	if os.Getenv(paceVariable) == "" {
		t.Skip("it measures for BenchmarkNodes")
	}
	var rounds int
	w := newFixture(t)
	if _, err := fmt.Sscanf(os.Getenv(paceVariable), "%s %d", &w.settings.Pace, &rounds); err != nil {
		t.Fatal(err)
	}
	w.settings.Batch.Idle = w.settings.Pace.BatchIdle()
	if _, err := engine.InstallCRDs(t.Context(), w.client, w.settings); err != nil {
		t.Fatal(err)
	}
	w.startEngine(t)
	class, pool, _ := w.pool()
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(consolidateAfter.String())
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	for _, o := range []client.Object{class, pool} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.life(t, 1) // Until now the node class was not ready, and nothing was cached.
	var result times
	for range rounds {
		launched, emptied := w.life(t, 1)
		result.Launch, result.One = append(result.Launch, launched), append(result.One, emptied)
	}
	for range cmp.Or(rounds/2, 1) {
		_, emptied := w.life(t, together)
		result.Twenty = append(result.Twenty, emptied)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(resultPrefix + string(raw))
}

// life fills as many nodes with a pod each and deletes the pods. It returns how long after the
// first pod the first instance was requested, and how long after consolidateAfter the last one
// was terminated.
func (w *fixture) life(t *testing.T, nodes int) (launched, terminated time.Duration) {
	t.Helper()
	created := time.Now()
	var pods []*corev1.Pod
	for i := range nodes {
		_, _, pod := w.pool()
		pod.Name = fmt.Sprintf("held-%d", i)
		// More than half of the types' two CPUs.
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1100m")
		if err := w.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	w.eventually(t, "the pods to run, and their nodes to be initialized", func() bool {
		for _, pod := range pods {
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase != corev1.PodRunning {
				return false
			}
		}
		claims := w.claims(t, "held")
		return len(claims) == nodes && !slices.ContainsFunc(claims, func(c karpv1.NodeClaim) bool {
			return !c.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized)
		})
	})
	// As long after its scheduling Karpenter takes a node for one that a pod is on its way to.
	time.Sleep(2 * w.settings.Batch.Max) //nolint:forbidigo // Nothing shows that a nomination has ended.
	for _, pod := range pods {
		if err := w.client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	since := time.Now()
	w.eventually(t, "the nodes to go", func() bool { return len(w.claims(t, "held")) == 0 })
	requests := w.requests(t, "CreateFleet", created)
	terminations := w.requests(t, "TerminateInstances", since.Add(consolidateAfter))
	t.Logf("%d nodes: requested after %v, terminated %v after consolidateAfter", nodes, requests, terminations)
	return requests[0], terminations[len(terminations)-1]
}

// requests are the times of the operation's requests after a moment.
func (w *fixture) requests(t *testing.T, operation string, after time.Time) []time.Duration {
	t.Helper()
	var times []time.Duration
	for _, call := range w.AWS.Calls() {
		if call.Operation == operation && !call.Dry && call.Time.After(after) {
			times = append(times, call.Time.Sub(after))
		}
	}
	if len(times) == 0 {
		t.Fatalf("no %s was requested", operation)
	}
	slices.Sort(times)
	return times
}
