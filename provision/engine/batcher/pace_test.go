package batcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	gang        = 40
	createFleet = 1500 * time.Millisecond
)

// cloud has types of several sizes, of which the larger take more pods for the same price each.
type cloud struct{ cloudprovider.CloudProvider }

func (cloud) Name() string { return "test" }

func (cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

func (cloud) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	var out []*cloudprovider.InstanceType
	for _, cpus := range []int64{4, 8, 16, 32, 64} {
		out = append(out, instanceType(cpus))
	}
	return out, nil
}

func instanceType(cpus int64) *cloudprovider.InstanceType {
	name := fmt.Sprintf("of-%d", cpus)
	labels := func(keyed ...string) karpscheduling.Requirements {
		out := karpscheduling.NewRequirements()
		for i := 0; i < len(keyed); i += 2 {
			out.Add(karpscheduling.NewRequirement(keyed[i], corev1.NodeSelectorOpIn, keyed[i+1]))
		}
		return out
	}
	return &cloudprovider.InstanceType{
		Name: name,
		Requirements: labels(corev1.LabelInstanceTypeStable, name, corev1.LabelArchStable, "amd64", corev1.LabelOSStable, "linux",
			corev1.LabelTopologyZone, "a", karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand),
		Offerings: cloudprovider.Offerings{{
			Requirements: labels(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand, corev1.LabelTopologyZone, "a"),
			Price:        float64(cpus), Available: true,
		}},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceMemory: resource.MustParse("512Gi"),
		},
		Overhead: &cloudprovider.InstanceTypeOverhead{},
	}
}

// simulated is a cluster to which pods come, and whose instances are launched as slowly as EC2's.
type simulated struct {
	api     client.WithWatch
	cluster *state.Cluster
	// scheduler is Karpenter's. It is made outside of the bubble, since a cache of it has a
	// goroutine that never ends.
	scheduler *provisioning.Provisioner

	mu sync.Mutex
	// launched are when instances were requested.
	launched []time.Time
}

func newSimulated(t *testing.T) *simulated {
	t.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	for _, condition := range []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady} {
		pool.StatusConditions().SetTrue(condition)
	}
	s := &simulated{}
	s.api = interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(pool, replicaSet(gang)).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if claim, ok := o.(*karpv1.NodeClaim); ok && err == nil {
				s.launch(claim.DeepCopy())
			}
			return err
		},
	})
	s.cluster = state.NewCluster(clock.RealClock{}, s.api, cloud{})
	s.scheduler = provisioning.NewProvisioner(s.api, discard{}, cloud{}, s.cluster, clock.RealClock{}, nil, nil)
	return s
}

type discard struct{}

func (discard) Publish(...events.Event) {}

// launch requests an instance of the smallest type that fits, and has the NodeClaim get it.
func (s *simulated) launch(claim *karpv1.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launched = append(s.launched, time.Now())
	name := claim.Name
	time.AfterFunc(createFleet, func() {
		requested := claim.Spec.Resources.Requests[corev1.ResourceCPU]
		types, _ := cloud{}.GetInstanceTypes(context.Background(), nil)
		at := slices.IndexFunc(types, func(i *cloudprovider.InstanceType) bool { return i.Capacity.Cpu().Cmp(requested) >= 0 })
		claim.Status.ProviderID = "test:///" + name
		claim.Status.Capacity, claim.Status.Allocatable = types[at].Capacity, types[at].Capacity
		for key, requirement := range types[at].Requirements {
			claim.Labels[key] = requirement.Any()
		}
		s.cluster.UpdateNodeClaim(claim)
	})
}

// come creates the pods at their times and triggers each as Karpenter's controller does, again
// every ten seconds.
func (s *simulated) come(ctx context.Context, t *testing.T, at []time.Duration, owned bool, trigger func(*corev1.Pod)) {
	start := time.Now()
	for i, after := range at {
		pause(ctx, time.Until(start.Add(after)))
		p := &corev1.Pod{ObjectMeta: meta("p" + strconv.Itoa(i))}
		p.CreationTimestamp = metav1.Now()
		if owned {
			p = podsOf(of("apps/v1", "ReplicaSet"), i+1, nil)[i].(*corev1.Pod)
			p.Spec.NodeName = ""
		}
		p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		if err := s.api.Create(ctx, p); err != nil {
			t.Error(err)
			return
		}
		go func() {
			for ctx.Err() == nil {
				trigger(p)
				pause(ctx, triggerInterval)
			}
		}()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// run has the pods come and returns how many nodes were launched, and how long after the last
// pod the last of them was.
func (s *simulated) run(t *testing.T, at []time.Duration, owned, fast bool) (nodes int, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(coreoptions.ToContext(t.Context(), &coreoptions.Options{
			BatchIdleDuration: stockIdle, BatchMaxDuration: maximum, CPURequests: 1000, IgnoreDRARequests: true,
			MinValuesPolicy: coreoptions.MinValuesPolicyStrict, PreferencePolicy: coreoptions.PreferencePolicyRespect,
		}))
		defer stop()
		if !s.cluster.Synced(ctx) {
			t.Fatal("the state is not complete")
		}
		last := time.Now().Add(at[len(at)-1])
		reconcile, trigger := s.stock()
		if fast {
			reconcile, trigger = s.fast()
		}
		go func() {
			for ctx.Err() == nil {
				if err := reconcile(ctx); err != nil {
					t.Error(err)
				}
			}
		}()
		s.come(ctx, t, at, owned, trigger)
		pause(ctx, 15*time.Second)
		nodes, after = len(s.launched), s.launched[len(s.launched)-1].Sub(last)
		stop()
		pause(t.Context(), 2*time.Second) // Karpenter's batcher waits on for a second.
	})
	return nodes, after
}

// fast is the batcher of this package.
func (s *simulated) fast() (reconcile func(context.Context) error, trigger func(*corev1.Pod)) {
	b := New(clock.RealClock{}, NewWindows(idle, idle, maximum), NewOwners(clock.RealClock{}, s.api, s.api))
	p, pods := NewProvisioner(s.scheduler, b, s.api, s.cluster.Synced, &sync.Mutex{}), NewPodTrigger(s.api, b, s.cluster)
	return func(ctx context.Context) error {
			result, err := p.Reconcile(ctx)
			pause(ctx, result.RequeueAfter)
			return err
		}, func(pod *corev1.Pod) {
			_, _ = pods.Reconcile(context.Background(), pod)
		}
}

// stock is Karpenter's own batcher, with what its provisioner's Reconcile does after it.
func (s *simulated) stock() (reconcile func(context.Context) error, trigger func(*corev1.Pod)) {
	b := provisioning.NewBatcher[types.UID](clock.RealClock{})
	return func(ctx context.Context) error {
		if !b.Wait(ctx) || !s.cluster.Synced(ctx) {
			return nil
		}
		results, err := s.scheduler.Schedule(ctx)
		if err == nil && len(results.NewNodeClaims) > 0 {
			_, err = s.scheduler.CreateNodeClaims(ctx, results.NewNodeClaims)
		}
		return err
	}, func(pod *corev1.Pod) { b.Trigger(pod.UID) }
}

// arrivals are times within which as many pods come, in order, with gaps of at most longest.
func arrivals(r *rand.Rand, within, longest time.Duration) []time.Duration {
	out := []time.Duration{0}
	for len(out) < gang {
		at := out[len(out)-1] + time.Duration(1+r.Int64N(int64(2*within/gang)))
		if r.IntN(gang/4) == 0 && longest > within/gang {
			at += time.Duration(r.Int64N(int64(longest - within/gang)))
		}
		out = append(out, at)
	}
	return out
}

func TestNoMoreNodesAreLaunchedThanByKarpenter(t *testing.T) {
	const within = 500 * time.Millisecond
	for _, test := range []struct {
		name  string
		owned bool
		// gap is the longest one between two pods.
		gap time.Duration
		// more is whether more nodes are expected, for which the comparison has to be able.
		more bool
	}{
		{"pods without an owner", false, 0, false},
		{"pods of a ReplicaSet", true, 0, false},
		{"pods of a ReplicaSet that come with gaps", true, 600 * time.Millisecond, false},
		{"pods without an owner that come with gaps", false, 600 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			more := false
			for range 3 {
				at := arrivals(r, within, test.gap)
				fast, after := newSimulated(t).run(t, at, test.owned, true)
				stock, afterStock := newSimulated(t).run(t, at, test.owned, false)
				t.Logf("%d pods in %s: %d nodes, the last %s after the last pod; by Karpenter %d nodes, %s", gang, at[gang-1].Round(time.Millisecond), fast, after, stock, afterStock)
				more = more || fast > stock
				if !test.more && after > 700*time.Millisecond {
					t.Errorf("the last node comes %s after the last pod", after)
				}
			}
			if more != test.more {
				t.Errorf("more nodes than by Karpenter: %t", more)
			}
		})
	}
}
