package simulate_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// large is 20 pools, 500 nodes and 5,000 pods.
func large(tb testing.TB) provision.ClusterSnapshot { return largeSnapshot(tb, 20, 500) }

// largeSnapshot is pools of a class each, so many nodes with ten pods each of 100 Deployments, and as many Deployments that go
// to zero.
func largeSnapshot(tb testing.TB, pools, nodes int) provision.ClusterSnapshot {
	var documents []string
	for i := range pools {
		name := fmt.Sprintf("name: p%02d", i)
		documents = append(documents,
			strings.ReplaceAll(strings.ReplaceAll(wide, "name: gpu", name), "10%", fmt.Sprint(10+i, "%")),
			strings.ReplaceAll(class, "name: gpu", name))
	}
	for i := range 100 {
		documents = append(documents, deployment(fmt.Sprintf("w%02d", i), nodes/10, i), deployment(fmt.Sprintf("zero%02d", i), 0, i))
	}
	snapshot := read(tb, documents...)
	for i := range nodes {
		claim, node := run(&snapshot, fmt.Sprintf("p%02d", i%pools), fmt.Sprintf("n%03d", i), time.Duration(i)*time.Hour)
		for _, list := range []corev1.ResourceList{claim.Status.Capacity, node.Status.Allocatable} {
			list["cpu"] = resource.MustParse("16")
		}
		for j := range 10 {
			name := fmt.Sprintf("w%02d", i%100)
			pod(&snapshot, fmt.Sprintf("%s-1f-%d-%d", name, i, j), node.Name, of("ReplicaSet", name+"-1f"), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = nil
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(100+i%100, "m"))}
				p.Labels = map[string]string{"app": fmt.Sprint("w", i%100)}
				if i%4 == 0 {
					p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
					}}
				}
			})
		}
	}
	for i := range 100 {
		budget(&snapshot, fmt.Sprint("w", i), 1)
	}
	for i := range 20 {
		pod(&snapshot, fmt.Sprint("waits-", i), "")
	}
	// Those of one shape share it, as where the pods of a cluster are read.
	var shapes reduce.Pods
	for i, p := range snapshot.Pods {
		shaped, err := shapes.Pod(p)
		if err != nil {
			tb.Fatal(err)
		}
		snapshot.Pods[i] = shaped
	}
	return snapshot
}

// deployment is one of pods that ask for some of a CPU.
func deployment(name string, replicas, more int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers: [{name: c, resources: {limits: {cpu: %[3]dm}}}]
`, name, replicas, 100+more)
}

const wide = `
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

// BenchmarkALargeCluster changes every class, so that every node is replaced: once
// with room, once under limits that leave none, once with more pods declared
// than are looked at one by one, and once with ten times the nodes and pods, which
// take no more than ten times as long.
func BenchmarkALargeCluster(b *testing.B) {
	// Of the processors: how long it takes on the clock depends on what else the machine does.
	const most = time.Second
	for name, c := range map[string]struct {
		limit    string
		replicas int
	}{
		"with room":               {"10000", 1},
		"without":                 {"10", 1},
		"with thousands declared": {"10000", 1000},
	} {
		b.Run(name, func(b *testing.B) {
			if cpu := forecastCPUTime(b, 500, c.limit, c.replicas); cpu > most {
				b.Errorf("took %s of the processors at best, more than %s", cpu, most)
			}
		})
	}
	b.Run("of 5000 nodes", func(b *testing.B) {
		one := forecast(b, largeSnapshot(b, 20, 500), changedLarge(b, largeSnapshot(b, 20, 500), "10000", 1), prices(b), 500)
		if ten := forecastCPUTime(b, 5000, "100000", 1); ten > 10*one {
			b.Errorf("took %s of the processors at best, more than ten times the %s of 500 nodes", ten, one)
		}
	})
}

// changedLarge is a snapshot after the change: every class differs, and so many replicas
// of ten more Deployments are declared.
func changedLarge(tb testing.TB, snapshot provision.ClusterSnapshot, limit string, replicas int) provision.ClusterSnapshot {
	for _, p := range snapshot.NodePools {
		p.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse(limit)}
	}
	for _, c := range snapshot.NodeClasses {
		c.Spec.Tags = map[string]string{"cost": "1"}
	}
	for i := range 10 {
		snapshot.Workloads = append(snapshot.Workloads, read(tb, deployment(fmt.Sprint("new", i), replicas, 500+i)).Workloads...)
	}
	return snapshot
}

// forecastCPUTime is the least time of the processors for a forecast in which all of so many nodes are replaced.
func forecastCPUTime(b *testing.B, nodes int, limit string, replicas int) time.Duration {
	before, after, types := largeSnapshot(b, 20, nodes), changedLarge(b, largeSnapshot(b, 20, nodes), limit, replicas), prices(b)
	cpu := time.Hour
	for b.Loop() {
		cpu = min(cpu, forecast(b, before, after, types, nodes))
	}
	b.ReportMetric(cpu.Seconds(), "cpu-s")
	return cpu
}

// forecast is the processors' time of one of them.
func forecast(b *testing.B, before, after provision.ClusterSnapshot, types *catalog.Catalog, nodes int) time.Duration {
	used := worked(b)
	got, err := simulate.Compare(engine.Offline(b.Context(), settings()), before, after, types)
	if err != nil {
		b.Fatal(err)
	}
	if len(got.Replaced) != nodes || got.Rollout.Pods != 10*nodes || len(got.PodScheduling.NewlySchedulable)+len(got.PodScheduling.Unschedulable) < 10 {
		b.Fatalf("%d nodes, %d pods, and of those declared %v, %v", len(got.Replaced), got.Rollout.Pods, got.PodScheduling.NewlySchedulable, got.PodScheduling.Unschedulable)
	}
	return worked(b) - used
}

// TestALargeClusterTakesInProportion holds on any machine: ten times the nodes and
// pods take about ten times as long, not a hundred times.
func TestALargeClusterTakesInProportion(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes seconds")
	}
	types, ctx := prices(t), engine.Offline(t.Context(), settings())
	took := func(pools, nodes int) (least time.Duration) {
		before, after := largeSnapshot(t, pools, nodes), changedLarge(t, largeSnapshot(t, pools, nodes), "10000", 2)
		for range 2 {
			start := worked(t)
			if _, err := simulate.Compare(ctx, before, after, types); err != nil {
				t.Fatal(err)
			}
			if d := worked(t) - start; least == 0 || d < least {
				least = d
			}
		}
		return least
	}
	small, whole := took(2, 50), took(20, 500)
	ratio := whole.Seconds() / small.Seconds()
	t.Logf("a forecast for 500 nodes, 5,000 pods and 20 pools took %s, %.1f times as long as for a tenth (%s)", whole.Round(time.Millisecond), ratio, small.Round(time.Millisecond))
	if ratio > 30 {
		t.Errorf("ten times the snapshot takes %.1f times as long", ratio)
	}
}

// worked is the processor time of this process: what else the machine does is no part
// of it.
func worked(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
