package readiness_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/provision/sandbox"
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestAgainstARealControlPlane(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	config := sandbox.DefaultConfig()
	config.WithoutGit, config.Progress = true, os.Stderr
	target, err := sandbox.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Stop() })
	if _, err := envtest.InstallCRDs(target.REST(), envtest.CRDInstallOptions{CRDs: awsapis.CRDs}); err != nil {
		t.Fatal(err)
	}
	l := startLive(t, target.REST())
	// Each has a configuration, a pool and a node of its own.
	for _, c := range []struct {
		name string
		run  func(*live)
	}{
		{"a release loses none of the taints that others write at the same time", releaseInARace},
		{"a node with nothing but the startup taint ends with none", lastTaint},
		{"a node that never advertises its GPUs is replaced, once, and reported", neverAdvertises},
		{"nodes are left alone when the DevicePlugin goes", pluginRemoved},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := l.T
			defer func() { l.T = outer }()
			l.T = t
			c.run(l)
		})
	}
}

func releaseInARace(l *live) {
	l.join("race", 10*time.Minute, corev1.Taint{Key: "first", Effect: corev1.TaintEffectNoSchedule})
	edits, after := 0, 0
	for after < 10 && edits < 2000 {
		l.edit("race", false, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("edit-%d", edits), Effect: corev1.TaintEffectPreferNoSchedule})
		})
		switch edits++; {
		case edits == 10:
			l.serve("race", 40)
		case edits > 10 && !l.startupTaint("race"):
			after++
		}
	}
	node := l.node("race")
	keys := map[string]int{}
	for _, t := range node.Spec.Taints {
		keys[t.Key]++
	}
	for i := range edits {
		if keys[fmt.Sprintf("edit-%d", i)] != 1 {
			l.Errorf("edit %d of %d is there %d times", i, edits, keys[fmt.Sprintf("edit-%d", i)])
		}
	}
	if after < 10 || keys["first"] != 1 || keys[gpu.StartupTaint] != 0 || node.Annotations[gpu.AllocatableAnnotation] != advertised40 {
		l.Errorf("after %d edits: taints %v, annotations %v", edits, keys, node.Annotations)
	}
	l.Logf("released among %d edits", edits)
	l.eventually(func() string {
		for _, e := range l.events("race") {
			if strings.HasPrefix(e, "Normal GPUsAllocatable GPUs are advertised: nvidia.com/gpu 40 (configuration race), ") {
				return ""
			}
		}
		return fmt.Sprintf("events %q", l.events("race"))
	})
}

func lastTaint(l *live) {
	l.join("last", 10*time.Minute)
	l.serve("last", 40)
	l.eventually(func() string {
		node := l.node("last")
		// The node controller takes its own off in its own time.
		if len(node.Spec.Taints) > 0 || node.Annotations[gpu.AllocatableAnnotation] != advertised40 {
			return fmt.Sprintf("taints %v, annotations %v", node.Spec.Taints, node.Annotations)
		}
		return ""
	})
	families, err := l.registry.Gather()
	l.must(err)
	for _, f := range families {
		for _, m := range f.Metric {
			for _, label := range m.Label {
				if !slices.Contains([]string{"nodepool", "config", "reason"}, label.GetName()) {
					l.Errorf("%s has the label %s", f.GetName(), label.GetName())
				}
			}
		}
	}
	b := &bench{T: l.T, registry: l.registry}
	for name, want := range map[string]string{
		"poolwright_gpu_nodes":                              "config=last,nodepool=last 1",
		"poolwright_gpu_nodes_updated":                      "config=last,nodepool=last 1",
		"poolwright_gpu_pool_backoff_end_timestamp_seconds": "nodepool=last 0",
		"poolwright_gpu_nodes_unhealthy":                    "",
	} {
		if got := b.metric(name); got != want {
			l.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func neverAdvertises(l *live) {
	l.mu.Lock()
	l.book.until = time.Now().Add(time.Hour)
	l.mu.Unlock()
	l.join("never", 10*time.Minute)
	l.serve("never", 30)
	claim := &karpv1.NodeClaim{}
	l.must(l.api.Get(l.Context(), client.ObjectKey{Name: "never"}, claim))
	if claim.DeletionTimestamp != nil {
		l.Fatal("it is replaced before its time")
	}
	l.share(configFor("never", time.Second))
	l.controller.Refresh()
	l.eventually(func() string {
		l.must(l.api.Get(l.Context(), client.ObjectKey{Name: "never"}, claim))
		if claim.DeletionTimestamp == nil {
			return "its claim is not deleted"
		}
		return ""
	})
	if got := claim.Annotations["poolwright.dev/gpu-failed"]; got != readiness.MissingGPUs {
		l.Errorf("the claim is marked %q", got)
	}
	l.eventually(func() string {
		for _, e := range l.events("never") {
			if strings.HasPrefix(e, "Warning MissingGPUs ") && strings.Contains(e, "no GPU node of pool never is launched until ") {
				return ""
			}
		}
		return fmt.Sprintf("events %q", l.events("never"))
	})
	l.controller.Refresh()
	if failures, _, last := l.State("never"); failures != 1 || last != "MissingGPUs: the node advertises nvidia.com/gpu: 30 of 40" {
		l.Errorf("the book has %d failures, the last is %s", failures, last)
	}
	b := &bench{T: l.T, registry: l.registry}
	if got, want := b.metric("poolwright_gpu_pool_backoff_end_timestamp_seconds"), fmt.Sprintf("nodepool=never %d", l.book.until.Unix()); got != want {
		l.Errorf("%s, want %s", got, want)
	}
	if !l.startupTaint("never") {
		l.Error("pods may come while it is drained")
	}
}

func pluginRemoved(l *live) {
	l.join("removed", 10*time.Minute)
	l.serve("removed", 4)
	if !l.startupTaint("removed") {
		l.Fatal("it was released with whole GPUs")
	}
	l.share(gpu.Sharing{})
	l.controller.Refresh()
	l.eventually(func() string {
		if l.startupTaint("removed") {
			return "it is still held"
		}
		return ""
	})
}
