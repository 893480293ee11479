package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

// large is 20 pools of a class each, 500 nodes and 5,000 pods of 100 workloads.
func large(tb testing.TB) provision.Fleet {
	var documents []string
	for i := range 20 {
		name := fmt.Sprintf("name: p%02d", i)
		documents = append(documents,
			strings.ReplaceAll(strings.ReplaceAll(wide, "name: gpu", name), "10%", fmt.Sprint(10+i, "%")),
			strings.ReplaceAll(class, "name: gpu", name))
	}
	fleet := read(tb, documents...)
	for i := range 500 {
		claim, node := run(&fleet, fmt.Sprintf("p%02d", i%20), fmt.Sprintf("n%03d", i), time.Duration(i)*time.Hour)
		for _, list := range []corev1.ResourceList{claim.Status.Capacity, node.Status.Allocatable} {
			list["cpu"] = resource.MustParse("16")
		}
		for j := range 10 {
			pod(&fleet, fmt.Sprintf("w%02d-%d-%d", i%100, i, j), node.Name, func(p *corev1.Pod) {
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
		budget(&fleet, fmt.Sprint("w", i), 1)
	}
	for i := range 20 {
		pod(&fleet, fmt.Sprint("waits-", i), "")
	}
	return fleet
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

// BenchmarkALargeFleet changes every class, so that every node is replaced, once
// with room and once under limits that leave none.
func BenchmarkALargeFleet(b *testing.B) {
	b.Run("with room", func(b *testing.B) { forecastLarge(b, "10000") })
	b.Run("without", func(b *testing.B) { forecastLarge(b, "10") })
}

func forecastLarge(b *testing.B, limit string) {
	before, after, types := large(b), large(b), prices(b)
	for _, p := range after.NodePools {
		p.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse(limit)}
	}
	for _, c := range after.NodeClasses {
		c.Spec.Tags = map[string]string{"cost": "1"}
	}
	ctx := engine.Offline(b.Context(), settings())
	for b.Loop() {
		start := time.Now()
		got, err := simulate.Compare(ctx, before, after, types)
		if err != nil {
			b.Fatal(err)
		}
		if len(got.Replaced) != 500 || got.Rollout.Pods != 5000 {
			b.Fatalf("%d nodes and %d pods", len(got.Replaced), got.Rollout.Pods)
		}
		if took := time.Since(start); took > 2*time.Second {
			b.Errorf("took %s, more than 2s", took)
		}
	}
}
