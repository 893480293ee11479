package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// waitTimeout is how long anything may take on a busy machine.
const waitTimeout = 10 * time.Minute

// eventually waits until something holds. Where it does not, the failure has the state of each part
// that a pod needs to run: processes, scheduler, provisioner, NodeClaims, instances and nodes.
func (w *fixture) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, tick := time.After(waitTimeout), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-w.Done():
			t.Fatalf("waiting for %s: %v", what, w.Err())
		case <-deadline:
			t.Fatalf("waited %s in vain for %s\n%s", waitTimeout, what, w.state(t))
		}
	}
}

// state has a line for each object and instance, the last lines of the scheduler, and the goroutines
// of the provisioner.
func (w *fixture) state(t *testing.T) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	pods, nodes, claims := &corev1.PodList{}, &corev1.NodeList{}, &karpv1.NodeClaimList{}
	if err := w.client.List(ctx, pods); err != nil {
		line("pods: %v", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		line("pod %s/%s: %s, on %q", pod.Namespace, pod.Name, pod.Status.Phase, pod.Spec.NodeName)
		for _, c := range pod.Status.Conditions {
			line("  %s %s %s %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if err := w.client.List(ctx, claims); err != nil {
		line("NodeClaims: %v", err)
	}
	for i := range claims.Items {
		line("NodeClaim %s: %s", claims.Items[i].Name, claims.Items[i].Status.ProviderID)
		for _, c := range claims.Items[i].Status.Conditions {
			line("  %s %s %s %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, i := range w.AWS.Instances() {
		line("instance %s: %s", i.ID, i.State)
	}
	if err := w.client.List(ctx, nodes); err != nil {
		line("nodes: %v", err)
	}
	for i := range nodes.Items {
		line("node %s: %s, taints %v", nodes.Items[i].Name, nodes.Items[i].Spec.ProviderID, nodes.Items[i].Spec.Taints)
	}
	line("the scheduler:\n%s", w.schedulerLog())
	line("the provisioner:\n%s", strings.Join(goroutines("karpenter/pkg/controllers/provisioning", "provision/engine/batcher"), "\n\n"))
	return strings.Join(lines, "\n")
}

// schedulerLog is the end of what the scheduler logged.
func (w *fixture) schedulerLog() string {
	files, err := filepath.Glob(filepath.Join(w.Dir, "*", "logs", "kube-scheduler.log"))
	if err != nil || len(files) != 1 {
		return fmt.Sprint("found ", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-1000):])
}

// goroutines returns the stack of each goroutine that is in one of the packages.
func goroutines(packages ...string) []string {
	text := make([]byte, 64<<20)
	text = text[:runtime.Stack(text, true)]
	var found []string
	for stack := range strings.SplitSeq(string(text), "\n\n") {
		for _, name := range packages {
			if strings.Contains(stack, name) {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}
