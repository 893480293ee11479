package readiness_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

const grace = 2 * time.Minute

func TestTheRecordedCapacityOfANodeStaysUntilItHasFailedForLongerThanARestart(t *testing.T) {
	node, claim, pod, set := running()
	b := newBench(t, node, claim, pod, set)
	writes := 0
	b.fails = func(string, client.Object) error { writes++; return nil }
	b.clock.SetTime(epoch.Add(time.Hour))
	if wait := b.step(); wait != 0 || writes > 0 {
		t.Fatalf("a node in order: wait %s, %d writes", wait, writes)
	}
	b.edit(advertising(0))
	if wait := b.step(); wait != grace || b.allocatable() != advertised40 {
		t.Fatalf("wait %s, allocatable %q", wait, b.allocatable())
	}
	b.clock.Step(grace - time.Second)
	if wait := b.step(); wait != time.Second || b.allocatable() != advertised40 || b.pools()[0].Unhealthy != nil {
		t.Fatalf("wait %s, allocatable %q", wait, b.allocatable())
	}
	b.clock.Step(time.Second)
	if wait := b.step(); wait != 0 || b.allocatable() != "" {
		t.Fatalf("wait %s, allocatable %q", wait, b.allocatable())
	}
	b.clock.Step(time.Hour)
	b.step()
	want := []string{"Warning Mismatch The node does not advertise nvidia.com/gpu=40,nvidia.com/gpu.shared=0 (configuration sliced): the node advertises none yet: nvidia.com/gpu: 0 of 40"}
	if diff := cmp.Diff(want, b.takeEvents()); diff != "" {
		t.Error(diff)
	}
	failure := []gpu.UnhealthyNode{{Node: nodeName, Claim: claimName, Reason: "Mismatch", Message: "the node advertises none yet: nvidia.com/gpu: 0 of 40", Since: epoch.Add(time.Hour)}}
	if diff := cmp.Diff(failure, b.pools()[0].Unhealthy); diff != "" {
		t.Error(diff)
	}
	if writes != 1 || b.claim() == nil || len(b.book.failed) > 0 {
		t.Errorf("%d writes, claim %v, book %v: a running node is never replaced", writes, b.claim(), b.book.failed)
	}
	b.edit(advertising(40))
	if b.step(); b.allocatable() != advertised40 || len(b.book.advertised) > 0 || b.pools()[0].Unhealthy != nil || b.pools()[0].Updated != 1 {
		t.Errorf("once more in order: allocatable %q, book %v, %+v", b.allocatable(), b.book.advertised, b.pools())
	}
}

func TestAFailureThatEndsInTimeWasNone(t *testing.T) {
	node, claim, pod, set := running()
	b := newBench(t, node, claim, pod, set)
	for range 3 {
		b.edit(advertising(0))
		b.step()
		b.clock.Step(grace - time.Second)
		b.step()
		b.edit(advertising(40))
		b.step()
	}
	if b.allocatable() != advertised40 || len(b.takeEvents()) > 0 {
		t.Errorf("allocatable %q", b.allocatable())
	}
	b.edit(advertising(0))
	b.step()
	b.clock.Step(grace - time.Second)
	b.restart()
	if wait := b.step(); wait != grace || b.allocatable() != advertised40 {
		t.Errorf("a new process gives %s, the allocatable is %q", wait, b.allocatable())
	}
}

func TestAMismatchEndsWhenTheOldPluginAdvertisesEnoughAgain(t *testing.T) {
	node, claim, _, set := running()
	b := newBench(t, node, claim, set, plugin("plugin-1", "r0", true))
	for range 3 {
		b.edit(advertising(0))
		b.step()
		b.clock.Step(grace - time.Second)
		b.edit(advertising(40))
		b.step()
	}
	if b.allocatable() != advertised40 {
		t.Error("two short doubts were taken for a long one")
	}
}

func TestARunningNodeOutsideOfTheOrdinary(t *testing.T) {
	drop := func(n *corev1.Node) { delete(n.Annotations, gpu.AllocatableAnnotation) }
	for name, c := range map[string]struct {
		edit        func(*corev1.Node)
		pod         *corev1.Pod
		wait        time.Duration
		allocatable string
		failure     string
		events      int
	}{
		"one from before the installation is recorded": {edit: drop, allocatable: advertised40},
		"one from before the installation that advertises something else is reported, not tainted": {
			edit: func(n *corev1.Node) { drop(n); advertising(4)(n) }, wait: grace, failure: "Mismatch", events: 1},
		"one whose annotation nobody can read is corrected when it is in order": {
			edit: func(n *corev1.Node) { n.Annotations[gpu.AllocatableAnnotation] = "lots" }, allocatable: advertised40},
		"one whose annotation nobody can read loses it when it is not": {
			edit: func(n *corev1.Node) { n.Annotations[gpu.AllocatableAnnotation] = "lots"; advertising(10)(n) }, wait: grace, failure: "MissingGPUs", events: 1},
		"one with an old plugin that advertises what is recorded waits for the update": {
			pod: plugin("plugin-1", "r0", true), allocatable: advertised40},
		"one with an old plugin that advertises less has failed": {
			edit: advertising(30), pod: plugin("plugin-1", "r0", true), wait: grace, failure: "Mismatch", events: 1},
		"one with an old plugin without a record waits, too": {
			edit: func(n *corev1.Node) { drop(n); advertising(80)(n) }, pod: plugin("plugin-1", "r0", true)},
		"one whose plugin is down while its devices stay has not failed": {
			pod: plugin("plugin-1", "r1", false), allocatable: advertised40},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := running()
			if c.edit != nil {
				c.edit(node)
			}
			if c.pod != nil {
				pod = c.pod
			}
			b := newBench(t, node, claim, pod, set)
			b.clock.Step(time.Hour)
			if wait := b.step(); wait != c.wait {
				t.Errorf("wait %s, want %s", wait, c.wait)
			}
			b.clock.Step(grace)
			b.step()
			if b.allocatable() != c.allocatable || b.taints() != "nvidia.com/gpu team" || b.claim() == nil {
				t.Errorf("allocatable %q, taints %s", b.allocatable(), b.taints())
			}
			got := ""
			for _, failure := range b.pools()[0].Unhealthy {
				got += failure.Reason
			}
			if got != c.failure || len(b.takeEvents()) != c.events {
				t.Errorf("trouble %q, want %q", got, c.failure)
			}
		})
	}
}

func TestPoolsAreListedSortedWithWhatTheyAdvertise(t *testing.T) {
	node, claim, pod, set := running()
	second, _, _, _ := starting()
	second.Name, second.UID, second.OwnerReferences = "b", "node-b", nil
	third, _, _, _ := running()
	third.Name, third.UID, third.Labels[karpv1.NodePoolLabelKey] = "c", "node-c", "alone"
	advertising(2)(third)
	going, _, _, _ := running()
	going.Name, going.UID, going.Finalizers, going.DeletionTimestamp = "d", "node-d", []string{"x/y"}, &metav1.Time{Time: epoch}
	b := newBench(t, node, claim, pod, set, second, third, going)
	b.sharing.Configs = append(b.sharing.Configs, gpu.PluginConfig{Name: "whole", Pools: []string{"alone", "zzz"}, Strategy: gpu.SharingStrategyNone, Replicas: 1})
	b.book.failed, b.book.last = []string{"zzz", "unserved"}, "NoDriver: none"
	want := []gpu.PoolState{
		{Pool: "alone", Config: "whole", Nodes: 1, Allocatable: gpu.Resources{gpu.Resource: 2}},
		{Pool: "shared", Config: "sliced", Nodes: 2, Updated: 1, Allocatable: gpu.Resources{gpu.Resource: 40}},
		{Pool: "zzz", Config: "whole", Allocatable: gpu.Resources{gpu.Resource: 0}, Failures: 1, LastFailure: "NoDriver: none"},
	}
	if diff := cmp.Diff(want, b.pools()); diff != "" {
		t.Error(diff)
	}
	b.cache.fails = errors.New("down")
	if _, err := b.controller.Pools(context.Background()); err == nil {
		t.Error("a cache that does not answer shows no pools, and no error")
	}
}

func TestANodeWhoseKubeletIsNotReadyIsNotUpdated(t *testing.T) {
	node, claim, pod, set := running()
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	b := newBench(t, node, claim, pod, set)
	if got := b.pools(); got[0].Nodes != 1 || got[0].Updated != 0 {
		t.Errorf("%+v", got)
	}
}

func TestANodeThatIsAnotherOrHasAnotherConfigBeginsAnew(t *testing.T) {
	node, claim, pod, set := running()
	b := newBench(t, node, claim, pod, set)
	b.edit(advertising(0))
	b.step()
	b.clock.Step(grace)
	other := b.node()
	other.UID = "node-2"
	b.put(other)
	b.edit(advertising(0))
	if wait := b.step(); wait != grace || b.allocatable() != advertised40 {
		t.Errorf("another node of the name has %s left, its allocatable is %q", wait, b.allocatable())
	}

	node, claim, _, _ = starting()
	b = newBench(t, node, claim)
	b.step()
	b.clock.Step(9 * time.Minute)
	renamed := sliced
	renamed.Name = "renamed"
	b.sharing.Configs = []gpu.PluginConfig{renamed}
	if wait := b.step(); wait != 10*time.Minute {
		t.Errorf("under another configuration it has %s left", wait)
	}
}

func TestAChangeIsReportedOnce(t *testing.T) {
	node, claim, pod, set := running()
	b := newBench(t, node, claim, pod, set)
	for _, c := range []struct {
		name     string
		change   func()
		reported int
	}{
		{"the node is new", func() {}, 1},
		{"nothing changed", func() {}, 0},
		{"it advertises less", func() { b.edit(advertising(30)) }, 1},
		{"a label of no interest changed", func() { b.edit(func(n *corev1.Node) { n.Labels["x"] = "y" }) }, 0},
		{"it has failed", func() { b.clock.Step(grace) }, 1},
		{"it is gone", func() { b.drop(node) }, 1},
		{"it is still gone", func() {}, 0},
	} {
		b.reported = 0
		c.change()
		if b.step(); b.reported != c.reported {
			t.Errorf("%s: told %d times, want %d", c.name, b.reported, c.reported)
		}
	}
}

func TestCountsOfAPoolThatIsGoneAreDropped(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	b := newBench(t, node, claim, pod, set, pool)
	b.step()
	b.drop(node)
	if b.step(); b.metric("poolwright_gpu_node_startup_duration_seconds") == "" {
		t.Error("a pool that is only empty lost its counts")
	}
	b.drop(pool)
	node.Labels[karpv1.NodePoolLabelKey] = "shared"
	b.put(node)
	b.step()
	b.drop(node)
	if b.step(); b.metric("poolwright_gpu_node_startup_duration_seconds") != "" {
		t.Error("a pool that is gone still has counts")
	}
}
