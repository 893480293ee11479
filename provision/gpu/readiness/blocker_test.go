package readiness_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

func TestANodeThatPodsMayHaveComeToIsNeverReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		let         func(*bench)
		advertises  int64
		allocatable string
		reason      string
	}{
		"one that was released for hours, in the second in which its plugin restarts": {
			let: func(b *bench) { b.edit(advertising(40)); b.step(); b.clock.SetTime(epoch.Add(3 * time.Hour)) }, allocatable: advertised40},
		"one that was released and then advertises nothing for hours": {
			let: func(b *bench) {
				b.edit(advertising(40))
				b.step()
				b.edit(advertising(0))
				b.step()
				b.clock.SetTime(epoch.Add(3 * time.Hour))
			}, reason: "PluginFailing"},
		"one that was released before this process and got the taint again": {
			let: func(b *bench) {
				b.edit(func(n *corev1.Node) { n.Annotations = map[string]string{gpu.AllocatableAnnotation: advertised40} })
				b.step()
				b.clock.Step(grace)
				b.step()
				if b.allocatable() != "" {
					b.Error("we still vouch for it")
				}
				b.clock.SetTime(epoch.Add(3 * time.Hour))
			}, reason: "PluginFailing"},
		"one that never had the taint": {
			let: func(b *bench) {
				b.edit(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] })
				b.step()
				b.clock.SetTime(epoch.Add(3 * time.Hour))
			}, reason: "PluginFailing"},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			b := newBench(t, node, claim, pod, set)
			b.step()
			b.put(plugin("plugin-1", "r1", true))
			restarts := func() { b.put(plugin("plugin-1", "r1", false)); b.edit(advertising(0)) }
			if c.reason != "" && !strings.Contains(name, "advertises nothing") {
				restarts()
			}
			c.let(b)
			restarts()
			for range 3 {
				b.step()
			}
			if b.claim() == nil || b.claim().Annotations[failed] != "" || len(b.book.failed) > 0 || b.allocatable() != c.allocatable {
				t.Errorf("claim %v, allocatable %q, said %q", b.claim(), b.allocatable(), b.takeEvents())
			}
			got := ""
			for _, failure := range b.pools()[0].Unhealthy {
				got += failure.Reason
			}
			if got != c.reason {
				t.Errorf("trouble %q, want %q", got, c.reason)
			}
		})
	}
}

// chart is NVIDIA's plugin as its chart installs it.
func chart(change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	spec := corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "nvidia-device-plugin-ctr", Image: "mirror.example/nvidia/k8s-device-plugin:v0.17.1"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
	if change != nil {
		change(&spec)
	}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "nvdp", Namespace: "gpu-operator"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
}

func required(key string, operator corev1.NodeSelectorOperator, values ...string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}},
		}}}
	}
}

func TestWhatSparesANodeThatIsOutOfTime(t *testing.T) {
	stamped := func(stamp string) func(*bench) {
		return func(b *bench) { set := daemonSet(); set.Annotations[gpu.SharingAnnotation] = stamp; b.put(set) }
	}
	foreign := func(change func(*corev1.PodSpec)) func(*bench) {
		return func(b *bench) { b.put(chart(change)) }
	}
	program := func(name string, command ...string) func(*bench) {
		return foreign(func(spec *corev1.PodSpec) { spec.Containers[0].Name, spec.Containers[0].Command = name, command })
	}
	const another = "DaemonSet gpu-operator/nvdp (image mirror.example/nvidia/k8s-device-plugin:v0.17.1) brings another device plugin"
	for name, c := range map[string]struct {
		change func(*bench)
		// reason is empty where nothing spares it.
		reason, message string
	}{
		"nothing":        {func(*bench) {}, "", ""},
		"no DaemonSet":   {func(b *bench) { b.drop(daemonSet()) }, "NotApplied", "there is no DaemonSet of the device plugin for configuration sliced"},
		"another's node": {func(b *bench) { b.foreign = true }, "MissingGPUs", "another Karpenter's nodes are left alone"},
		"a DaemonSet of an earlier release": {func(b *bench) {
			set := daemonSet()
			set.Annotations = map[string]string{"poolwright.dev/gpu-shares": sliced.EncodeSharing()}
			b.put(set)
		}, "", ""},
		"a DaemonSet that was made for another number": {stamped("time-slicing:nvidia.com/gpu=8,nvidia.com/gpu.shared=0"), "NotApplied",
			"the DevicePlugin declares time-slicing:nvidia.com/gpu=10,nvidia.com/gpu.shared=0, its DaemonSet nvidia-device-plugin-sliced was made for time-slicing:nvidia.com/gpu=8,nvidia.com/gpu.shared=0: the Sync has not applied it (drift: Report? another Sync?)"},
		"a DaemonSet that does not declare what it was made for": {stamped(""), "NotApplied", "made for an unknown configuration"},
		"an annotation on the node":                              {func(b *bench) { b.edit(func(n *corev1.Node) { n.Annotations = keep }) }, "MissingGPUs", "karpenter.sh/do-not-disrupt keeps it"},
		"an annotation on its claim":                             {func(b *bench) { claim := b.claim(); claim.Annotations = keep; b.put(claim) }, "MissingGPUs", "karpenter.sh/do-not-disrupt keeps it"},
		"another plugin everywhere":                              {foreign(nil), "AnotherPlugin", another},
		"another plugin for its pool":                            {foreign(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "shared"} }), "AnotherPlugin", another},
		"another plugin whose selection nobody can read":         {foreign(required("x", "Maybe")), "AnotherPlugin", another},
		"another plugin by its digest":                           {foreign(func(s *corev1.PodSpec) { s.Containers[0].Image = "nvcr.io/nvidia/k8s-device-plugin@sha256:77" }), "AnotherPlugin", "k8s-device-plugin@sha256:77"},
		"another plugin in a shell":                              {program("x", "/bin/sh", "-c", "x"), "AnotherPlugin", another},

		"not another plugin elsewhere by label":    {foreign(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"x": "y"} }), "", ""},
		"not another plugin elsewhere by affinity": {foreign(required(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpNotIn, "shared")), "", ""},
		"not another plugin that the taint keeps":  {foreign(func(s *corev1.PodSpec) { s.Tolerations = s.Tolerations[:0] }), "", ""},
		"not another program of the same image":    {program("x", "/usr/bin/gpu-feature-discovery"), "", ""},
		"not that program in a shell":              {program("gpu-feature-discovery", "/bin/sh", "-c", "x"), "", ""},
		"not another DaemonSet of the cluster":     {foreign(func(s *corev1.PodSpec) { s.Containers[0].Image = "k8s-device-plugin.example/logs:v1" }), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			advertising(30)(node)
			b := newBench(t, node, claim, pod, set)
			c.change(b)
			b.step()
			b.clock.SetTime(epoch.Add(11 * time.Minute))
			for range 2 {
				if wait := b.step(); b.claim() != nil && wait != grace {
					t.Errorf("it is looked at again after %s", wait)
				}
			}
			if (b.claim() != nil) != (c.reason != "") {
				t.Fatalf("claim %v, said %q", b.claim(), b.takeEvents())
			}
			if c.reason == "" {
				return
			}
			if b.claim().Annotations[failed] != "" || len(b.book.failed) > 0 || b.metric("poolwright_gpu_nodes_replaced_total") != "" {
				t.Errorf("claim %v, book %v", b.claim(), b.book.failed)
			}
			message := b.takeEvents()
			if len(message) != 2 || !strings.HasPrefix(message[0], "Warning "+c.reason+" ") || !strings.Contains(message[0], c.message) || strings.Contains(message[0], "is replaced") {
				t.Errorf("said, other than once of node and claim: %q", message)
			}
			got := b.pools()[0].Unhealthy
			if len(got) != 1 || got[0].Reason != c.reason || !strings.Contains(got[0].Message, c.message) || strings.Contains(got[0].Message, "\n") {
				t.Errorf("troubles %+v", got)
			}
			b.edit(advertising(40))
			if b.drop(chart(nil)); !b.foreign && c.reason != "NotApplied" {
				if b.step(); b.allocatable() != advertised40 || b.pools()[0].Unhealthy != nil {
					t.Errorf("once it agrees: allocatable %q, %+v", b.allocatable(), b.pools())
				}
			}
		})
	}
}

func TestANodeWithAPluginOfItsOwnIsReplacedWithoutADaemonSet(t *testing.T) {
	node, claim, _, _ := starting()
	advertising(4)(node)
	node.Status.NodeInfo.OSImage = "Bottlerocket OS 1.30"
	b := newBench(t, node, claim)
	b.step()
	b.clock.SetTime(epoch.Add(10 * time.Minute))
	if b.step(); b.claim() != nil {
		t.Error("it is there for ever")
	}
}

// crowd makes n starting nodes of the pool, and reconciles all of them.
func crowd(t *testing.T, n int) (b *bench, read func() (claims int, waits []time.Duration)) {
	_, _, _, set := starting()
	objects := []client.Object{set}
	for i := range n {
		node, claim, _, _ := starting()
		node.Name, node.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("nu", i))
		claim.Name, claim.UID = fmt.Sprint("c", i), types.UID(fmt.Sprint("cu", i))
		node.OwnerReferences[0].Name, node.OwnerReferences[0].UID = claim.Name, claim.UID
		claim.Status.NodeName = node.Name
		objects = append(objects, node, claim)
	}
	b = newBench(t, objects...)
	return b, func() (int, []time.Duration) {
		t.Helper()
		var waits []time.Duration
		for i := range n {
			request := reconcile.Request{NamespacedName: client.ObjectKey{Name: fmt.Sprint("n", i)}}
			result, err := b.controller.Reconcile(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			node, claim := &corev1.Node{}, &karpv1.NodeClaim{}
			if err := b.api.Get(t.Context(), client.ObjectKey{Name: fmt.Sprint("c", i)}, claim); err == nil {
				waits = append(waits, result.RequeueAfter)
			} else if b.api.Get(t.Context(), request.NamespacedName, node) == nil {
				b.drop(node) // As Karpenter does.
			}
		}
		return len(waits), slices.Compact(waits)
	}
}

func TestOnlyAFifthOfAPoolIsReplacedWithinATimeout(t *testing.T) {
	b, read := crowd(t, 40)
	read()
	b.clock.SetTime(epoch.Add(10*time.Minute - time.Second))
	if left, _ := read(); left != 40 {
		t.Fatalf("%d claims before their time", left)
	}
	b.clock.Step(time.Second)
	left, waits := read()
	// Each deletion makes the pool smaller, and with it the fifth.
	if left != 33 || len(waits) != 1 || waits[0] != 10*time.Minute {
		t.Fatalf("%d of 40 claims are left, the others wait %v", left, waits)
	}
	failures := b.pools()[0].Unhealthy
	if len(failures) != 33 || !strings.Contains(failures[32].Message, "it waits its turn") {
		t.Errorf("%d troubles, the last is %+v", len(failures), failures[len(failures)-1])
	}
	b.clock.Step(10*time.Minute - time.Second)
	if left, _ := read(); left != 33 {
		t.Errorf("%d claims are left before the next turn", left)
	}
	b.clock.Step(time.Second)
	if left, _ = read(); left != 27 {
		t.Errorf("%d claims are left after the next turn", left)
	}
	for range 30 {
		b.clock.Step(10 * time.Minute)
		left, _ = read()
	}
	if left != 0 {
		t.Errorf("%d claims are left for ever", left)
	}
}

func TestOneNodeOfASmallPoolIsReplacedAtATime(t *testing.T) {
	b, read := crowd(t, 3)
	read()
	for want := 2; want >= 0; want-- {
		b.clock.Step(10 * time.Minute)
		for range 2 {
			if left, _ := read(); left != want {
				t.Fatalf("%d claims are left, want %d", left, want)
			}
		}
	}
}
