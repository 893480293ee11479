package gpunode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func newControllers() *Controllers {
	return &Controllers{
		log:     logr.Discard(),
		backoff: startuptaint.NewFailureBackoff(clock.RealClock{}), restored: make(chan struct{}),
		sharing: func(context.Context) (gpu.Sharing, error) {
			return gpu.Sharing{Configs: []gpu.PluginConfig{{Name: "sliced", Pools: []string{"held", "recovered", "failing"}, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10}}}, nil
		},
	}
}

// plugin is a DevicePlugin whose status has the failures of pools.
func plugin(failures map[string]int32, until time.Time) *v1alpha1.DevicePlugin {
	p := &v1alpha1.DevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: "nvidia"}}
	for pool, n := range failures {
		p.Status.Pools = append(p.Status.Pools, v1alpha1.GPUPoolStatus{Name: pool, Failures: n, BackoffUntil: &metav1.Time{Time: until}})
	}
	return p
}

func TestANewLeaderRestoresTheBackOffOfTheLastOne(t *testing.T) {
	g, until := newControllers(), time.Now().Add(time.Hour)
	live := reconcilertest.Client(t, plugin(map[string]int32{"failing": 3, "held": 2}, until))
	if !g.restoreAsLeader(t.Context(), live) {
		t.Fatal("it does not lead")
	}
	for pool, want := range map[string]int{"failing": 3, "held": 2, "recovered": 0} {
		failures, _, _ := g.backoff.State(pool)
		if _, held := g.backoff.Active(pool); failures != want || held != (want > 0) {
			t.Errorf("%s: %d failures, held is %t", pool, failures, held)
		}
	}
}

// cached reads from a client as a cache does.
type cached struct {
	*informertest.FakeInformers
	client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.Reader.Get(ctx, key, into, opts...)
}

func (c cached) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.Reader.List(ctx, into, opts...)
}

// newReadiness is the controller of a node with GPUs.
func newReadiness(t *testing.T, g *Controllers) *readiness.Controller {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		karpv1.NodePoolLabelKey: "held", karpv1.NodeRegisteredLabelKey: "true",
		"karpenter.k8s.aws/instance-gpu-count": "4", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
	}}}
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node).Build()
	cfg := readiness.Config{
		Cache: cached{&informertest.FakeInformers{}, kube}, Client: kube, Live: kube,
		ReplaceEnabled: func() bool { return false }, Backoff: g.backoff, Recorder: record.NewFakeRecorder(10),
		Registry: prometheus.NewRegistry(), Clock: clock.RealClock{}, Log: logr.Discard(),
	}
	cfg.ReadSharing, cfg.CachedSharing, cfg.LiveSharing = g.restoredSharing, g.sharing, g.sharing
	k, err := readiness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Whoever acted before, or reported the failures, would end a back-off: that is the readiness
// controller, of whose pools the status is written, and the engine, which launches by it.
func TestNothingActsBeforeTheBackOffIsRestored(t *testing.T) {
	for name, c := range map[string]struct{ refused, failures int }{
		"it is read at once":                {0, 3},
		"it is read after a while":          {3, 3},
		"it never is, and the process ends": {100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				g := newControllers()
				controller, requested, reported := newReadiness(t, g), 0, plugin(map[string]int32{"failing": 3}, time.Now().Add(time.Hour))
				live := interceptor.NewClient(reconcilertest.Client(t, reported).(client.WithWatch), interceptor.Funcs{
					List: func(ctx context.Context, kube client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
						if requested++; requested <= c.refused {
							if requested == c.refused && c.failures == 0 {
								stop()
							}
							return errors.New("the API server is away")
						}
						return kube.List(ctx, into, opts...)
					},
				})
				acted, failures, led := make(chan error, 1), make(chan int, 1), make(chan bool, 1)
				go func() {
					_, err := controller.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: "n"}})
					acted <- err
				}()
				go func() {
					pools, _ := controller.Pools(ctx)
					n := 0
					for _, p := range pools {
						n += p.Failures
					}
					failures <- n
				}()
				synctest.Wait()
				go func() { led <- g.restoreAsLeader(ctx, live) }()
				synctest.Wait()
				if c.refused > 0 && (len(acted)+len(failures) > 0 || g.TaintConfig(nil).Restored()) {
					t.Error("something acted before the back-off was restored")
				}
				if ok, err, n := <-led, <-acted, <-failures; ok != (c.failures > 0) || (err == nil) != ok || n != c.failures {
					t.Errorf("it leads: %t, acts: %v, and reports %d failures", ok, err, n)
				}
				if known := g.TaintConfig(nil).Restored(); known != (c.failures > 0) {
					t.Errorf("the engine launches for pools of configurations: %t", known)
				}
			})
		})
	}
}
