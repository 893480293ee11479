package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timeslicing is forty pods on the four GPUs of one node.
func (s *Run) timeslicing(workloads []*workload) []scenarioStep {
	worker := workloads[0]
	return []scenarioStep{
		s.createWorkload(worker),
		{action: func(ctx context.Context) error { return s.share(ctx, worker) }, events: []string{gpuShared}},
		s.shortenDelays("nodepools.yaml", poolDelay{worker.pool, "1m"}),
		s.deleteWorkload(worker),
	}
}

// share waits until all pods run, and counts their nodes.
func (s *Run) share(ctx context.Context, r *workload) error {
	return s.retry(ctx, "waiting for all pods", func() error {
		pods, err := s.podsOf(ctx, r)
		if err != nil {
			return err
		}
		running, on := 0, map[string]bool{}
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
				on[pod.Spec.NodeName] = true
			}
		}
		if running < r.pods() || len(on) != 1 || s.gpuNodes(ctx) != 1 {
			return fmt.Errorf("%d of %d pods run, on %d nodes of %d", running, r.pods(), len(on), s.gpuNodes(ctx))
		}
		for name := range on {
			node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading the node: %w", err)
			}
			gpus := node.Status.Allocatable[gpuResource]
			s.marks.mark(gpuShared, "node/"+name, fmt.Sprintf("%d pods run on this one %s: its GPUs are %s shares",
				running, node.Labels[corev1.LabelInstanceTypeStable], gpus.String()), time.Now())
			s.record(row{field: "podsOfNode", title: "pods that share the GPUs of one node", value: float64(running), unit: asCount, document: figure{text: "10 a GPU, of 4 GPUs"}})
		}
		return nil
	})
}
