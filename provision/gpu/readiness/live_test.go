package readiness_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

// live is a control plane with the Controller on a manager, and everything else
// emulated by hand but the DaemonSet controller.
type live struct {
	*testing.T
	api        client.Client
	controller *readiness.Controller
	registry   *prometheus.Registry

	mu      sync.Mutex
	sharing gpu.Sharing
	book    book
}

func (l *live) Failed(pool, diagnosis string) (int, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.Failed(pool, diagnosis)
}

func (l *live) Reset(pool string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Reset(pool)
}

func (l *live) State(pool string) (int, time.Time, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.State(pool)
}

func (l *live) Pools() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.Pools()
}

func (l *live) share(s gpu.Sharing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sharing = s
}

func startLive(t *testing.T, server *rest.Config) *live {
	t.Helper()
	l := &live{T: t, registry: prometheus.NewRegistry()}
	var err error
	if l.api, err = client.New(server, client.Options{}); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(server, ctrl.Options{Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	sharing := func(context.Context) (gpu.Sharing, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.sharing, nil
	}
	cfg := readiness.Config{
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Backoff: l, Registry: l.registry, Clock: clock.RealClock{},
		ReplaceEnabled: func() bool { return true },
		//nolint:staticcheck // The newer events API drops repeated notes into one series.
		Recorder: mgr.GetEventRecorderFor("poolwright"), Log: logr.Discard(),
	}
	cfg.ReadSharing, cfg.CachedSharing, cfg.LiveSharing = sharing, sharing, sharing
	l.controller, err = readiness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.controller.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l
}

// eventually polls until what returns "", and fails with its last word.
func (l *live) eventually(what func() string) {
	l.Helper()
	text := ""
	err := wait.PollUntilContextTimeout(l.Context(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		text = what()
		return text == "", nil
	})
	if err != nil {
		l.Fatal(text)
	}
}

func (l *live) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *live) node(name string) *corev1.Node {
	l.Helper()
	node := &corev1.Node{}
	l.must(l.api.Get(l.Context(), client.ObjectKey{Name: name}, node))
	return node
}

// edit changes a node as kubelets and operators do: read, change, write, again
// after a conflict.
func (l *live) edit(name string, status bool, change func(*corev1.Node)) {
	l.Helper()
	l.must(retry.OnError(wait.Backoff{Steps: 50, Duration: 5 * time.Millisecond, Factor: 1.1}, func(error) bool { return true }, func() error {
		node := &corev1.Node{}
		if err := l.api.Get(l.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		change(node)
		if status {
			return l.api.Status().Update(l.Context(), node)
		}
		return l.api.Update(l.Context(), node)
	}))
}

// join makes a DaemonSet, a claim and its registered node, all named after a
// configuration. The claim has a finalizer, as Karpenter gives it.
func (l *live) join(config string, timeout time.Duration, taints ...corev1.Taint) {
	l.Helper()
	ctx := l.Context()
	l.share(configFor(config, timeout))
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: config, Labels: map[string]string{karpv1.NodePoolLabelKey: config}, Finalizers: []string{"karpenter.sh/termination"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "x"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}},
		},
	}
	l.must(l.api.Create(ctx, claim))
	l.must(l.api.Create(ctx, liveSet(config)))
	node, _, _, _ := starting()
	node.ObjectMeta = metav1.ObjectMeta{Name: config, Labels: node.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: config, UID: claim.UID}}}
	node.Labels[karpv1.NodePoolLabelKey] = config
	node.Spec.Taints = append(taints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
	l.must(l.api.Create(ctx, node))
	l.beat(config)
	l.edit(config, true, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
	})
	claim.Status.NodeName, claim.Status.ProviderID = config, "aws:///us-east-1a/i-"+config
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	l.must(l.api.Status().Update(ctx, claim))
}

func configFor(name string, timeout time.Duration) gpu.Sharing {
	return gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{{
		Name: name, Pools: []string{name}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10, ReadyTimeout: timeout,
	}}}
}

// beat emulates a kubelet's lease until the test ends: without it the node
// controller gives the node up after 40 s.
func (l *live) beat(name string) {
	l.Helper()
	now, seconds := metav1.NowMicro(), int32(40)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	l.must(l.api.Create(l.Context(), lease))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for every := time.NewTicker(5 * time.Second); ; {
			select {
			case <-ctx.Done():
				every.Stop()
				return
			case <-every.C:
				now := metav1.NowMicro()
				lease.Spec.RenewTime = &now
				_ = l.api.Update(ctx, lease) // The next one makes up for it.
			}
		}
	}()
	l.Cleanup(func() { cancel(); <-ended })
}

func liveSet(config string) *appsv1.DaemonSet {
	ours := map[string]string{gpu.ConfigLabel: config}
	revision := map[string]string{gpu.PluginHashAnnotation: "r1"}
	shares := map[string]string{gpu.SharingAnnotation: configFor(config, 0).Configs[0].EncodeSharing()}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "plugin-" + config, Namespace: gpu.PluginNamespace, Labels: ours, Annotations: shares},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: ours},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ours, Annotations: revision},
				Spec: corev1.PodSpec{
					Containers:   []corev1.Container{{Name: "plugin", Image: "plugin"}},
					NodeSelector: map[string]string{karpv1.NodePoolLabelKey: config},
					Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}
}

// serve emulates the plugin: its pod, which the DaemonSet controller makes, becomes
// ready, and the kubelet reports the shares.
func (l *live) serve(config string, shares int64) {
	l.Helper()
	l.eventually(func() string {
		pods := &corev1.PodList{}
		if err := l.api.List(l.Context(), pods, client.InNamespace(gpu.PluginNamespace), client.MatchingLabels{gpu.ConfigLabel: config}); err != nil || len(pods.Items) != 1 {
			return fmt.Sprintf("%d plugin pods, error %v", len(pods.Items), err)
		}
		pod := &pods.Items[0]
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }),
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		if err := l.api.Status().Update(l.Context(), pod); err != nil {
			return err.Error()
		}
		return ""
	})
	l.edit(config, true, func(n *corev1.Node) {
		list := n.Status.Allocatable
		advertising(shares)(n)
		for name, quantity := range list {
			if name != gpu.Resource {
				n.Status.Allocatable[name] = quantity
			}
		}
		n.Status.Capacity = n.Status.Allocatable
	})
}

func (l *live) startupTaint(name string) bool {
	return slices.ContainsFunc(l.node(name).Spec.Taints, func(t corev1.Taint) bool { return t.Key == gpu.StartupTaint })
}

// events are what was said about a NodeClaim.
func (l *live) events(claim string) []string {
	l.Helper()
	list := &corev1.EventList{}
	l.must(l.api.List(l.Context(), list))
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "NodeClaim" && e.InvolvedObject.Name == claim {
			out = append(out, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message))
		}
	}
	return out
}
