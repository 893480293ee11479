package readiness_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

// failed is the mark of a claim whose node never advertised its GPUs.
const failed = "poolwright.dev/gpu-failed"

func TestANodeThatNeverAdvertisesItsGPUsIsReplacedAtItsDeadline(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(30)(node)
	b := newBench(t, node, claim, pod, set)
	b.step()
	b.clock.SetTime(epoch.Add(5*time.Minute - time.Nanosecond))
	if got := b.pools(); len(got) != 1 || got[0].Nodes != 1 || got[0].Updated != 0 || got[0].Unhealthy != nil {
		t.Errorf("while it starts: %+v", got)
	}
	b.clock.SetTime(epoch.Add(10*time.Minute - time.Nanosecond))
	if wait := b.step(); wait != time.Nanosecond || b.claim() == nil {
		t.Fatalf("before its deadline: wait %s, claim %v", wait, b.claim())
	}
	late := gpu.UnhealthyNode{Node: nodeName, Claim: claimName, Reason: "MissingGPUs", Since: epoch.Add(5 * time.Minute),
		Message: "the node advertises nvidia.com/gpu: 30 of 40; its time is up at 14:10:00 UTC"}
	if got := b.pools(); len(got) != 1 || !cmp.Equal(got[0].Unhealthy, []gpu.UnhealthyNode{late}) {
		t.Errorf("when it is late: %+v", got)
	}
	b.clock.Step(time.Nanosecond)
	if wait := b.step(); wait != 0 || b.claim() != nil {
		t.Fatalf("wait %s, claim %v", wait, b.claim())
	}
	if b.taints() != "nvidia.com/gpu "+gpu.StartupTaint+" team" {
		t.Errorf("its taints are %s", b.taints())
	}
	texts := "Warning MissingGPUs The node does not advertise nvidia.com/gpu=40,nvidia.com/gpu.shared=0 (configuration sliced) 10m0s after registration and is replaced: the node advertises nvidia.com/gpu: 30 of 40"
	if diff := cmp.Diff([]string{texts, texts}, b.takeEvents()); diff != "" {
		t.Error(diff)
	}
	if b.book.last != "MissingGPUs: the node advertises nvidia.com/gpu: 30 of 40" || len(b.book.failed) != 1 || len(b.book.advertised) != 0 {
		t.Errorf("the book: %+v", b.book)
	}
	if got := b.metric("poolwright_gpu_nodes_replaced_total"); got != "nodepool=shared,reason=MissingGPUs 1" {
		t.Error(got)
	}
}

func TestARepeatedFailureReportsUntilWhenThePoolIsHeld(t *testing.T) {
	node, claim, pod, set := starting()
	b := newBench(t, node, claim, pod, set)
	b.step()
	b.clock.SetTime(epoch.Add(11 * time.Minute))
	b.book.failed, b.book.until = []string{"shared"}, epoch.Add(64*time.Minute)
	b.step()
	if got := b.takeEvents(); len(got) != 2 || !strings.HasSuffix(got[0], "; it is number 2 in a row: no GPU node of pool shared is launched until 15:04 UTC") {
		t.Errorf("%q", got)
	}
	b.drop(node)
	want := []gpu.PoolState{{Pool: "shared", Config: "sliced", Allocatable: gpu.Resources{gpu.Resource: 0}, Failures: 2,
		BackoffUntil: b.book.until, LastFailure: "Mismatch: the node advertises none yet: nvidia.com/gpu: 0 of 40"}}
	if diff := cmp.Diff(want, b.pools()); diff != "" {
		t.Error(diff)
	}
	b.clock.SetTime(b.book.until)
	if got := b.pools(); len(got) != 1 || !got[0].BackoffUntil.IsZero() || got[0].Failures != 2 {
		t.Errorf("after the hold: %+v", got)
	}
}

// crashed is a plugin that ended with these last lines of its log.
func crashed(texts string) func(*bench) {
	return func(b *bench) {
		pod := plugin("plugin-1", "r1", false)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:                 "plugin",
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: texts}},
		}}
		b.put(pod)
	}
}

func TestEveryCauseIsDiagnosed(t *testing.T) {
	noPod := func(b *bench) { b.drop(plugin("plugin-1", "", false)) }
	logs := "Loading configuration.\nRunning with config:\n{ \"version\": \"v1\" }\n"
	for name, c := range map[string]struct {
		change          func(*bench)
		reason, message string
	}{
		"tolerations that do not cover the pool's taints": {noPod, readiness.NoPluginPod, "tolerations do not cover team=ml:NoSchedule"},
		"no pod although it is tolerated": {func(b *bench) { noPod(b); b.edit(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:2] }) },
			readiness.NoPluginPod, "DaemonSet nvidia-device-plugin-sliced has none for it"},
		"a pod that finds no place": {func(b *bench) {
			pod := plugin("plugin-1", "r1", false)
			pod.Spec.NodeName = ""
			pod.Spec.Affinity = pinned(nodeName)
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "1 Insufficient memory"})
			b.put(pod)
		}, readiness.NotScheduled, "pod plugin-1 is not scheduled: Unschedulable: 1 Insufficient memory"},
		"an image that cannot be pulled": {func(b *bench) {
			pod := plugin("plugin-1", "r1", false)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "plugin", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "failed to unmarshal manifest,\nconfig file not found"}}}}
			b.put(pod)
		}, readiness.ImagePull, "container plugin cannot be pulled: ImagePullBackOff: failed to unmarshal manifest, config file not found"},
		"an image whose name nobody can read": {func(b *bench) {
			pod := plugin("plugin-1", "r1", false)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "plugin", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}}}}
			b.put(pod)
		}, readiness.ImagePull, "cannot be pulled: InvalidImageName"},
		"a container that cannot be made": {func(b *bench) {
			pod := plugin("plugin-1", "r1", false)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "plugin", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "no config file in it"}}}}
			b.put(pod)
		}, readiness.PluginFailing, "CreateContainerConfigError: no config file in it"},
		"a plugin that is not registered with the kubelet": {func(*bench) {}, readiness.Mismatch, "advertises none yet: nvidia.com/gpu: 0 of 40"},
		"whole GPUs instead of renamed shares": {func(b *bench) {
			b.sharing.Configs[0].Renamed = true
			set := daemonSet()
			set.Annotations[gpu.SharingAnnotation] = b.sharing.Configs[0].EncodeSharing()
			b.put(set)
			b.edit(advertising(4))
		}, readiness.Mismatch, "the node advertises nvidia.com/gpu: 4 of 0, nvidia.com/gpu.shared: 0 of 40"},
		"a plugin that only crashes": {crashed(logs + "panic: nil pointer"), readiness.PluginFailing, "CrashLoopBackOff: Loading"},
		"a plugin that is between two crashes": {func(b *bench) {
			pod := plugin("plugin-1", "r1", true)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "plugin", Ready: true, RestartCount: 3, LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "panic: nil pointer"}}}}
			b.put(pod)
		}, readiness.PluginFailing, "ended, and was started again: panic: nil pointer"},
		"a plugin that refuses its file": {crashed(logs + "unable to load config: unable to finalize config: replicas"), readiness.InvalidConfig, "replicas"},
		"an image without driver":        {crashed(logs + "E1 factory.go:112] Incompatible strategy detected auto"), readiness.NoDriver, "Incompatible strategy"},
		"a machine without the driver": {crashed("Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND.\nerror starting plugins: error getting plugins: unable to create plugins: failed to construct resource managers: nvml init failed: ERROR_LIBRARY_NOT_FOUND"),
			readiness.NoDriver, "ERROR_LIBRARY_NOT_FOUND"},
		"a runtime without the library": {crashed("nvidia-container-cli: load library failed: libnvidia-ml.so.1"), readiness.NoDriver, "libnvidia-ml.so.1"},
		"a plugin that has not come up": {func(b *bench) { b.put(plugin("plugin-1", "r1", false)) }, readiness.PluginFailing, "plugin-1 is not ready yet"},
		"a plugin of another revision":  {func(b *bench) { b.put(plugin("plugin-1", "r0", true)) }, readiness.Mismatch, "earlier version"},
		"GPUs that are missing":         {func(b *bench) { b.edit(advertising(20)) }, readiness.MissingGPUs, "20 of 40"},
		"MIG devices of another configuration": {func(b *bench) {
			b.edit(func(n *corev1.Node) {
				n.Status.Allocatable = corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("28")}
			})
		}, readiness.Mismatch, "the node advertises nvidia.com/gpu: 0 of 40"},
		"a GPU that cannot be partitioned": {func(b *bench) {
			pod := plugin("plugin-1", "r1", false)
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mig-parted", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "error setting MIG mode: In use by another client"}}}}
			b.put(pod)
		}, readiness.PluginFailing, "container mig-parted waits: CrashLoopBackOff: error setting MIG mode: In use by another client"},
		"GPUs that nvidia-mig-parted does not find": {crashed("error applying MIG configuration with hooks: error initializing NVML: ERROR_DRIVER_NOT_LOADED"), readiness.NoDriver, "ERROR_DRIVER_NOT_LOADED"},
		"shares of another configuration":           {func(b *bench) { b.edit(advertising(80)) }, readiness.Mismatch, "80 of 40"},
		"an image with a plugin of its own": {func(b *bench) {
			b.edit(func(n *corev1.Node) { advertising(4)(n); n.Status.NodeInfo.OSImage = "Bottlerocket OS 1.30" })
		}, readiness.Mismatch, "Bottlerocket's own plugin advertises nvidia.com/gpu: 4 of 40"},
		"a kubelet that fails": {func(b *bench) {
			b.edit(func(n *corev1.Node) {
				advertising(40)(n)
				n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "cni plugin\nnot initialized"}
			})
		}, readiness.NodeNotReady, "the node is not ready: KubeletNotReady: cni plugin not initialized"},
		"a kubelet that never spoke": {func(b *bench) { b.edit(func(n *corev1.Node) { n.Status.Conditions = nil }) },
			readiness.NodeNotReady, "never reported"},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			claim.Finalizers = []string{"karpenter.sh/termination"}
			b := newBench(t, node, claim, pod, set)
			c.change(b)
			b.step()
			b.clock.Step(10 * time.Minute)
			failures := b.pools()[0].Unhealthy
			b.step()
			reason, message, _ := strings.Cut(b.book.last, ": ")
			if reason != c.reason || !strings.Contains(message, c.message) || strings.Contains(message, "\n") {
				t.Errorf("%s: %s", reason, message)
			}
			if claim := b.claim(); claim.DeletionTimestamp == nil || claim.Annotations[failed] != reason {
				t.Errorf("the claim: %v", claim)
			}
			want := []gpu.UnhealthyNode{{Node: nodeName, Claim: claimName, Reason: reason, Message: message, Since: epoch.Add(5 * time.Minute)}}
			if diff := cmp.Diff(want, failures); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func daemonSet() *appsv1.DaemonSet {
	_, _, _, set := starting()
	return set
}

func pinned(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}},
	}}}
}

func TestAFailureCountsOnceTheClaimIsDeleted(t *testing.T) {
	node, claim, pod, set := starting()
	b := newBench(t, node, claim, pod, set)
	b.step()
	b.clock.SetTime(epoch.Add(time.Hour))
	down := true
	b.fails = func(verb string, _ client.Object) error {
		if down && verb == "delete" {
			return errors.New("down")
		}
		return nil
	}
	for range 3 {
		if _, err := b.reconcile(); err == nil || b.claim().Annotations[failed] != readiness.Mismatch {
			t.Fatal("the deletion did not fail")
		}
	}
	b.restart()
	b.step()
	b.clock.Step(grace)
	if _, err := b.reconcile(); err == nil {
		t.Fatal("the deletion did not fail")
	}
	if len(b.book.failed) != 0 || len(b.takeEvents()) != 0 || b.metric("poolwright_gpu_nodes_replaced_total") != "" {
		t.Errorf("counted or told before it happened: %d failures", len(b.book.failed))
	}
	down = false
	b.step()
	if len(b.book.failed) != 1 || b.claim() != nil || len(b.takeEvents()) != 2 {
		t.Errorf("%d failures, claim %v", len(b.book.failed), b.claim())
	}
}

func TestANodeThatIsSavedByAConflictHasNotFailed(t *testing.T) {
	node, claim, pod, set := starting()
	b := newBench(t, node, claim, pod, set)
	b.step()
	b.clock.SetTime(epoch.Add(10 * time.Minute))
	b.fails = func(verb string, _ client.Object) error {
		if verb == "delete" {
			b.fails = nil
			b.edit(advertising(40))
			return apierrors.NewConflict(schema.GroupResource{Resource: "nodeclaims"}, claimName, errors.New("it changed"))
		}
		return nil
	}
	if b.step(); b.claim().Annotations[failed] == "" {
		t.Fatal("its claim was not marked")
	}
	b.step()
	if _, marked := b.claim().Annotations[failed]; marked || b.allocatable() != advertised40 || len(b.book.failed) != 0 {
		t.Errorf("marked %v, allocatable %q, book %v", marked, b.allocatable(), b.book.failed)
	}
	if got := b.takeEvents(); len(got) != 1 || !strings.HasPrefix(got[0], "Normal GPUsAllocatable") {
		t.Errorf("%q", got)
	}
}

func TestALiveReadSavesANodeFromAStaleCache(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"it advertises its GPUs now": func(b *bench) { b.edit(advertising(40)) },
		"it was initialized":         func(b *bench) { b.edit(func(n *corev1.Node) { n.Labels[karpv1.NodeInitializedLabelKey] = "true" }) },
		"it is gone":                 func(b *bench) { b.drop(b.node()) },
		"it is another of the name": func(b *bench) {
			node := b.node()
			node.UID, node.OwnerReferences[0].UID = "node-2", "claim-2"
			b.put(node)
		},
		"its claim registered again": func(b *bench) {
			claim := b.claim()
			claim.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch.Add(time.Hour))
			b.put(claim)
		},
		"its claim is another of the name": func(b *bench) {
			claim := b.claim()
			claim.UID = "claim-2"
			b.put(claim)
		},
		"its claim is going already": func(b *bench) {
			claim := b.claim()
			claim.Finalizers = []string{"karpenter.sh/termination"}
			b.put(claim)
			b.drop(claim)
		},
		"pods were let in": func(b *bench) { b.edit(func(n *corev1.Node) { n.Spec.Taints = nil }) },
		"it is recorded": func(b *bench) {
			b.edit(func(n *corev1.Node) { n.Annotations = map[string]string{gpu.AllocatableAnnotation: advertised40} })
		},
		"somebody keeps it for inspection":         func(b *bench) { b.edit(func(n *corev1.Node) { n.Annotations = keep }) },
		"its claim is to be kept":                  func(b *bench) { claim := b.claim(); claim.Annotations = keep; b.put(claim) },
		"the DaemonSet is gone":                    func(b *bench) { b.drop(daemonSet()) },
		"the DaemonSet is another configuration's": func(b *bench) { set := daemonSet(); set.Annotations = nil; b.put(set) },
		"another revision is declared":             func(b *bench) { b.put(revised("r2")) },
		"the DevicePlugin gives it more time":      func(b *bench) { b.live = patient(time.Hour) },
		"the DevicePlugin declares something else": func(b *bench) {
			b.live = patient(10 * time.Minute)
			b.live.Configs[0].Replicas = 8
		},
		"its pool has no configuration any more": func(b *bench) { b.sharing = gpu.Sharing{} },
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, pod, set := starting()
			b := newBench(t, node, claim, pod, set)
			b.step()
			thaw := b.freeze()
			change(b)
			b.clock.SetTime(epoch.Add(10 * time.Minute))
			for range 2 {
				b.step()
			}
			thaw()
			b.live = nil
			if claim := b.claim(); claim == nil || claim.Annotations[failed] != "" || len(b.book.failed) != 0 {
				t.Errorf("claim %v, book %v", claim, b.book.failed)
			}
		})
	}
}

// keep is what keeps Karpenter, and us, from a node.
var keep = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}

// revised is the DaemonSet with another revision.
func revised(revision string) *appsv1.DaemonSet {
	set := daemonSet()
	set.Spec.Template.Annotations[gpu.PluginHashAnnotation] = revision
	return set
}

func patient(timeout time.Duration) *gpu.Sharing {
	config := sliced
	config.ReadyTimeout = timeout
	return &gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{config}}
}

func TestAClaimThatChangesUnderOurHandsIsReadAgainFirst(t *testing.T) {
	for _, at := range []string{"patch", "delete"} {
		node, claim, pod, set := starting()
		b := newBench(t, node, claim, pod, set)
		b.step()
		b.clock.SetTime(epoch.Add(10 * time.Minute))
		b.fails = func(verb string, o client.Object) error {
			if verb == at {
				b.fails = nil
				other := b.claim()
				other.Labels["touched"] = "by another"
				return b.api.Update(t.Context(), other)
			}
			return nil
		}
		if wait := b.step(); wait <= 0 || wait > time.Second || b.claim() == nil {
			t.Fatalf("at %s: wait %s, claim %v", at, wait, b.claim())
		}
		if b.step(); b.claim() != nil || len(b.book.failed) != 1 {
			t.Errorf("at %s: claim %v, book %v", at, b.claim(), b.book.failed)
		}
	}
}

func TestTheDeadlineBeginsWhenThePluginCouldCome(t *testing.T) {
	t.Run("with a DaemonSet that is younger than the node", func(t *testing.T) {
		node, claim, pod, set := starting()
		set.CreationTimestamp = metav1.NewTime(epoch.Add(time.Hour))
		b := newBench(t, node, claim, pod, set)
		b.clock.SetTime(epoch.Add(61 * time.Minute))
		if wait := b.step(); wait != 9*time.Minute {
			t.Errorf("it has %s left", wait)
		}
	})
	t.Run("and for a configuration without a timeout lasts ten minutes", func(t *testing.T) {
		node, claim, pod, set := starting()
		b := newBench(t, node, claim, pod, set)
		b.sharing.Configs[0].ReadyTimeout = 0
		if wait := b.step(); wait != 10*time.Minute-7*time.Second {
			t.Errorf("it has %s left", wait)
		}
	})
	t.Run("and a process that finds it passed watches the node for a while", func(t *testing.T) {
		node, claim, pod, set := starting()
		b := newBench(t, node, claim, pod, set)
		b.clock.SetTime(epoch.Add(time.Hour))
		if wait := b.step(); wait != grace {
			t.Errorf("it has %s left", wait)
		}
		b.clock.Step(grace)
		if b.step(); b.claim() != nil {
			t.Error("it is there for ever")
		}
	})
	t.Run("and not before registration", func(t *testing.T) {
		node, claim, pod, set := starting()
		claim.Status.Conditions = nil
		b := newBench(t, node, claim, pod, set)
		b.clock.Step(time.Hour)
		if wait := b.step(); wait != 0 || b.claim() == nil {
			t.Errorf("it has %s left", wait)
		}
	})
}

func TestANodeThatWaitsForSomethingElseIsNotReplaced(t *testing.T) {
	node, claim, pod, set := starting()
	advertising(40)(node)
	b := newBench(t, node, claim, pod, set)
	b.step()
	b.clock.SetTime(epoch.Add(time.Hour))
	if wait := b.step(); wait != 0 || b.claim() == nil {
		t.Errorf("released, not initialized: wait %s, claim %v", wait, b.claim())
	}
}
