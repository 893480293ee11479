package readiness_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

func TestANodeIsReleasedOnceItAdvertisesItsGPUs(t *testing.T) {
	node, claim, pod, set := starting()
	b := newBench(t, node, claim, pod, set)
	if wait := b.step(); wait != 10*time.Minute-7*time.Second {
		t.Errorf("it is looked at again after %s, not at its deadline", wait)
	}
	if b.taints() != "nvidia.com/gpu "+gpu.StartupTaint+" team" || b.allocatable() != "" {
		t.Fatalf("released before it advertises anything: %s, %q", b.taints(), b.allocatable())
	}
	b.edit(advertising(4))
	if b.step(); b.allocatable() != "" {
		t.Fatal("released with whole GPUs before the plugin shared them")
	}
	b.edit(advertising(40))
	if wait := b.step(); wait != 0 {
		t.Errorf("it is looked at again after %s", wait)
	}
	if b.taints() != "nvidia.com/gpu team" || b.allocatable() != advertised40 {
		t.Errorf("taints %s, allocatable %q", b.taints(), b.allocatable())
	}
	want := []string{"Normal GPUsAllocatable GPUs are advertised: nvidia.com/gpu 40 (configuration sliced), 7s after registration"}
	if diff := cmp.Diff(want, b.takeEvents()); diff != "" {
		t.Error(diff)
	}
	if len(b.book.advertised) != 1 || b.metric("poolwright_gpu_node_startup_duration_seconds") != "nodepool=shared 1" {
		t.Errorf("the book heard %v, the histogram has %q", b.book.advertised, b.metric("poolwright_gpu_node_startup_duration_seconds"))
	}
	b.fails = func(verb string, _ client.Object) error { return errors.New("another " + verb) }
	if b.step(); len(b.takeEvents()) != 0 || len(b.book.advertised) != 1 {
		t.Error("a released node was released again")
	}
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	without := func(label string) func(*corev1.Node) {
		return func(n *corev1.Node) { delete(n.Labels, label) }
	}
	for name, c := range map[string]struct {
		edit    func(*corev1.Node)
		sharing gpu.Sharing
		gone    bool
	}{
		"a node of no pool":              {edit: without(karpv1.NodePoolLabelKey)},
		"a node before its registration": {edit: without(karpv1.NodeRegisteredLabelKey)},
		"a node that is being deleted": {edit: func(n *corev1.Node) {
			n.Finalizers = []string{"karpenter.sh/termination"}
			n.DeletionTimestamp = &metav1.Time{Time: epoch}
		}},
		"a node that turns out without GPUs loses both":      {edit: without("karpenter.k8s.aws/instance-gpu-count"), gone: true},
		"a node with another manufacturer's GPUs loses both": {edit: func(n *corev1.Node) { n.Labels["karpenter.k8s.aws/instance-gpu-manufacturer"] = "amd" }, gone: true},
		"without a configuration for its pool it loses both": {sharing: gpu.Sharing{Configs: []gpu.PluginConfig{{Name: "x", Pools: []string{"other"}}}}, gone: true},
		"without any DevicePlugin it loses both":             {sharing: gpu.Sharing{Name: "none"}, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			node.Annotations = map[string]string{gpu.AllocatableAnnotation: advertised40, "other": "stays"}
			if c.edit != nil {
				c.edit(node)
			}
			b := newBench(t, node, claim, pod, set)
			if c.sharing.Name+c.sharing.Default != "" || c.sharing.Configs != nil {
				b.sharing = c.sharing
			}
			b.clock.Step(time.Hour)
			if wait := b.step(); wait != 0 {
				t.Errorf("it is looked at again after %s", wait)
			}
			gone := !strings.Contains(b.taints(), gpu.StartupTaint) && b.allocatable() == ""
			if gone != c.gone || !gone && b.allocatable() != advertised40 || b.node().Annotations["other"] != "stays" {
				t.Errorf("taints %s, annotations %v", b.taints(), b.node().Annotations)
			}
			if b.claim() == nil || len(b.book.failed)+len(b.book.advertised)+len(b.takeEvents()) > 0 {
				t.Error("more was done to it")
			}
		})
	}
}

func TestAReleaseNeverUndoesAnothersEditOfTheTaints(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	b := newBench(t, node, claim, pod, set)
	thaw := b.freeze()
	b.edit(func(n *corev1.Node) {
		n.Spec.Taints = append([]corev1.Taint{{Key: "fresh", Effect: corev1.TaintEffectNoExecute}}, n.Spec.Taints[:2]...)
	})
	if wait := b.step(); wait <= 0 || wait > time.Second {
		t.Errorf("after a conflict it is looked at again after %s", wait)
	}
	if b.taints() != "fresh nvidia.com/gpu "+gpu.StartupTaint || len(b.book.advertised)+len(b.takeEvents()) > 0 {
		t.Errorf("taints %s, book %v", b.taints(), b.book.advertised)
	}
	thaw()
	if b.step(); b.taints() != "fresh nvidia.com/gpu" || len(b.book.advertised) != 1 {
		t.Errorf("taints %s, book %v", b.taints(), b.book.advertised)
	}
}

func TestANodeWhoseKubeletFailsIsNotReleased(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	b := newBench(t, node, claim, pod, set)
	if wait := b.step(); b.allocatable() != "" || wait != 10*time.Minute-7*time.Second {
		t.Errorf("allocatable %q, wait %s", b.allocatable(), wait)
	}
}

func TestANodeIsReleasedWhenOnePluginAloneServesIt(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(*corev1.Pod)
		released bool
	}{
		"not beside one that goes": {edit: func(p *corev1.Pod) {
			p.Finalizers, p.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: epoch.Add(time.Minute)}
		}},
		"not beside one of another configuration": {edit: func(p *corev1.Pod) { p.Labels[gpu.ConfigLabel] = "former" }},
		"not beside an older one":                 {edit: func(*corev1.Pod) {}},
		"although one has ended": {edit: func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
		}, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			advertising(40)(node)
			other := plugin("a-plugin", "r1", true)
			other.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Minute))
			c.edit(other)
			b := newBench(t, node, claim, pod, set, other)
			if b.step(); (b.allocatable() == advertised40) != c.released {
				t.Errorf("allocatable %q, taints %s", b.allocatable(), b.taints())
			}
			if c.released {
				return
			}
			b.clock.SetTime(epoch.Add(10 * time.Minute))
			if got := b.pools()[0].Unhealthy; len(got) != 1 || got[0].Reason != "Mismatch" ||
				got[0].Message != "two plugins are on the node: beside pod plugin-1, 1 more have not ended yet" {
				t.Errorf("%+v", got)
			}
			b.clock.SetTime(epoch.Add(9 * time.Minute))
			if other.DeletionTimestamp == nil {
				b.drop(other)
			} else if other.Finalizers = nil; b.api.Update(t.Context(), other) != nil { // Its last finalizer goes, and so does it.
				t.Fatal("the pod stays")
			}
			if b.step(); b.allocatable() != advertised40 {
				t.Errorf("once it is gone: allocatable %q", b.allocatable())
			}
		})
	}
}

func TestOfTwoDaemonSetsTheNewerThatStaysCounts(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	early, going := revised("r0"), revised("r2")
	early.Name, early.CreationTimestamp = "z-early", metav1.NewTime(epoch.Add(-2*time.Hour))
	going.Name, going.CreationTimestamp = "z-going", metav1.NewTime(epoch)
	going.Finalizers, going.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: epoch.Add(time.Minute)}
	first := early.DeepCopy()
	first.Name = "a-early"
	b := newBench(t, node, claim, pod, first, set, early, going)
	if b.step(); b.allocatable() != advertised40 {
		t.Error("another DaemonSet than the newest that stays was asked")
	}
}

func TestWhatIsWrittenOnTheDaemonSetItselfIsNoRevision(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	set.Annotations[gpu.PluginHashAnnotation] = "r9"
	b := newBench(t, node, claim, pod, set)
	if b.step(); b.allocatable() != advertised40 {
		t.Errorf("allocatable %q", b.allocatable())
	}
}

func TestAPluginOfAnotherConfigDoesNotCount(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	pod.Labels[gpu.ConfigLabel] = "whole"
	b := newBench(t, node, claim, pod, set)
	if b.step(); b.allocatable() != "" {
		t.Error("the plugin of the configuration that was is taken for that of the configuration that is")
	}
}

func TestAFailedReadDecidesNothing(t *testing.T) {
	for name, fail := range map[string]func(*bench){
		"of the cache":               func(b *bench) { b.cache.fails = errors.New("down") },
		"of what is advertised next": func(b *bench) { b.fails = func(string, client.Object) error { return errors.New("down") } },
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			advertising(40)(node)
			b := newBench(t, node, claim, pod, set)
			fail(b)
			b.clock.Step(time.Hour)
			if _, err := b.reconcile(); err == nil {
				t.Error("no error")
			}
			if b.allocatable() != "" || b.claim() == nil || len(b.book.failed)+len(b.book.advertised) > 0 {
				t.Error("something was done")
			}
		})
	}
}

func TestANodeWithAPluginOfItsOwnNeedsNoneOfOurs(t *testing.T) {
	node, claim, _, _ := starting()
	advertising(40)(node)
	node.Status.NodeInfo.OSImage = "Bottlerocket OS 1.30"
	b := newBench(t, node, claim)
	b.edit(advertising(4))
	if wait := b.step(); wait != 10*time.Minute-7*time.Second {
		t.Errorf("it has %s left", wait)
	}
	b.edit(advertising(40))
	if b.step(); b.allocatable() != advertised40 || b.taints() != "nvidia.com/gpu team" {
		t.Errorf("allocatable %q, taints %s", b.allocatable(), b.taints())
	}
}

func TestANodeThatCameWithoutTheTaintEndsTheRowOfFailuresToo(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	node.Spec.Taints = node.Spec.Taints[:1]
	b := newBench(t, node, claim, pod, set)
	for range 2 {
		b.step()
	}
	if b.allocatable() != advertised40 || len(b.book.advertised) != 1 || len(b.takeEvents()) != 0 {
		t.Errorf("allocatable %q, book %v", b.allocatable(), b.book.advertised)
	}
}

func TestWhileConfigsAreNotReadNothingIsDone(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	b := newBench(t, node, claim, pod, set)
	b.unknown = errors.New("down")
	b.clock.Step(time.Hour)
	if _, err := b.reconcile(); !errors.Is(err, b.unknown) || !strings.Contains(b.taints(), gpu.StartupTaint) || b.claim() == nil {
		t.Errorf("error %v, taints %s", err, b.taints())
	}
	if _, err := b.controller.Pools(t.Context()); !errors.Is(err, b.unknown) {
		t.Errorf("pools: %v", err)
	}
}

func TestNewRequiresAllOfItsParts(t *testing.T) {
	if _, err := readiness.New(readiness.Config{}); err == nil {
		t.Error("one with none was built")
	}
}
