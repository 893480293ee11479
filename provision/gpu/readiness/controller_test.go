package readiness

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// listed lists from a client as a cache does.
type listed struct {
	*informertest.FakeInformers
	from client.Reader
}

func (l listed) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return l.from.List(ctx, into, opts...)
}

// noBackoff fails the test that would go by it.
type noBackoff struct{ Backoff }

// An informer whose handler waits counts as one that never syncs, which ends the
// process.
func TestAChangedDaemonSetConcernsItsNodesWithoutAWaitForTheBackoff(t *testing.T) {
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	for name, pool := range map[string]string{"mine": "gpu", "others": "another", "unserved": "cpu"} {
		builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			karpv1.NodePoolLabelKey: pool, karpv1.NodeRegisteredLabelKey: "true",
			"karpenter.k8s.aws/instance-gpu-count": "4", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
		}}})
	}
	kube := builder.Build()
	shared := gpu.Sharing{Configs: []gpu.PluginConfig{{Name: "sliced", Pools: []string{"gpu"}}, {Name: "whole", Pools: []string{"another"}}}}
	cfg := Config{
		Cache: listed{&informertest.FakeInformers{}, kube}, Client: kube, Live: kube, Backoff: noBackoff{},
		ReplaceEnabled: func() bool { return false }, Recorder: record.NewFakeRecorder(1),
		Registry: prometheus.NewRegistry(), Clock: clock.RealClock{}, Log: logr.Discard(),
	}
	cfg.ReadSharing = func(context.Context) (gpu.Sharing, error) {
		t.Error("it waits for the book")
		return gpu.Sharing{}, nil
	}
	cfg.CachedSharing = func(context.Context) (gpu.Sharing, error) { return shared, nil }
	cfg.LiveSharing = cfg.CachedSharing
	k, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: gpu.PluginNamespace, Name: "plugin", Labels: map[string]string{gpu.ConfigLabel: "sliced"}}}
	if diff := cmp.Diff(named("mine"), k.nodesOfSet(t.Context(), set)); diff != "" {
		t.Error(diff)
	}
}
