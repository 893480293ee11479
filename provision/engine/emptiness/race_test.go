package emptiness

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awslabs/operatorpkg/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

var raceSeed = flag.Uint64("race.seed", 0, "which races are run; 0 is another set each time")

// races are how many are run with the validation, and fewer without each part of it.
const races, racesWithout = 1000, 100

// delays are those of one race. A watch and a binding together take less than ValidationDelay, for
// which it is there: beyond it only the drain is left, as in Karpenter.
type delays struct {
	// arrival is when the scheduler gets the pod, from the begin of the command.
	arrival time.Duration
	// watch is until the scheduler's cache has what was written, binding is from the scheduler's decision to
	// the API server.
	watch, binding time.Duration
	// cache is the same for the pods that Karpenter's own cache has, which nothing bounds.
	cache time.Duration
	// request and response are those of each write of Karpenter and each live read.
	request, response time.Duration
	// eviction is how long after its binding the pod is evicted, and untainted how long after
	// the taint somebody removes it; 0 is never.
	eviction, untainted time.Duration
	// failing is how many of the first lists of pods fail.
	failing int32
}

func randomDelays(r *rand.Rand) delays {
	within := func(least, most int) time.Duration {
		return time.Duration(least+r.IntN(most-least)) * time.Millisecond
	}
	d := delays{
		arrival: within(-1000, 2500), watch: within(0, 450), binding: within(1, 500), cache: within(0, 5000),
		request: within(0, 150), response: within(0, 150),
	}
	if r.IntN(3) == 0 {
		d.eviction = within(1, 1500)
	}
	switch r.IntN(10) {
	case 0:
		d.untainted = within(1, 900)
	case 1, 2:
		d.failing = int32(1 + r.IntN(2))
	}
	return d
}

// outcome is what became of a race.
type outcome struct {
	// bound is whether the pod came to the node; terminated whether the NodeClaim was deleted,
	// and wrong whether it was while the pod was there, or the pod came afterwards.
	bound, terminated, wrong bool
	// tainted is whether the taint is left.
	tainted bool
}

// without is a part of the validation that is switched off.
type without string

const (
	nothing    without = ""
	validation without = "the validation"
	liveReads  without = "live reads"
	delay      without = "the delay"
)

// race runs one command of Karpenter's queue for an empty node, and a scheduler beside it.
type race struct {
	delays
	api client.WithWatch
	// cachedTaint is what the scheduler's cache has, cachedPod what Karpenter's has.
	cachedTaint, cachedPod atomic.Bool
	failed                 atomic.Int32
	// bound and deleted are what the API server did, wrong as outcome has it.
	bound, deleted, wrong atomic.Bool
}

func run(t *testing.T, d delays, off without) (out outcome) {
	synctest.Test(t, func(t *testing.T) {
		r := &race{delays: d, api: fake.NewClientBuilder().WithScheme(scheme()).
			// The default ones parse the schemas of all kinds, for each client.
			WithTypeConverters(managedfields.NewDeducedTypeConverter()).
			WithStatusSubresource(&karpv1.NodeClaim{}).
			WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
			WithObjects(node(), claim(nodeName)).Build()}
		ctx, stop := context.WithCancel(coreoptions.ToContext(t.Context(), &coreoptions.Options{}))
		defer stop()
		go r.schedule(ctx)
		pause(ctx, time.Second) // The pod may come before.
		r.disrupt(ctx, t, off)
		pause(ctx, 5*time.Second) // And after it.
		n := &corev1.Node{}
		if err := r.api.Get(ctx, client.ObjectKey{Name: nodeName}, n); err != nil {
			t.Fatal(err)
		}
		out = outcome{bound: r.bound.Load(), terminated: r.deleted.Load(), wrong: r.wrong.Load(), tainted: tainted(n)}
	})
	return out
}

// scheme has only what a race needs: a fake client lists all kinds of its scheme at each patch.
func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.Pod{}, &corev1.PodList{})
	s.AddKnownTypes(object.GVK(&karpv1.NodeClaim{}).GroupVersion(), &karpv1.NodeClaim{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// schedule binds the pod to the node unless the scheduler's cache has the taint by then.
func (r *race) schedule(ctx context.Context) {
	pause(ctx, time.Second+r.arrival)
	if r.cachedTaint.Load() {
		return
	}
	pause(ctx, r.binding)
	p := pod("p", nil)
	if err := r.api.Create(ctx, p); err != nil {
		return
	}
	r.bound.Store(true)
	if r.deleted.Load() {
		r.wrong.Store(true)
	}
	time.AfterFunc(r.cache, func() { r.cachedPod.Store(true) })
	if r.eviction > 0 {
		pause(ctx, r.eviction)
		_ = r.api.Delete(ctx, p)
	}
}

// disrupt has Karpenter's queue carry out a command for the node, as its controller does.
func (r *race) disrupt(ctx context.Context, t *testing.T, off without) {
	var queue *disruption.Queue
	written := interceptor.NewClient(r.api, r.writes())
	queueClient := client.Client(NewClient(written, interceptor.NewClient(r.api, r.reads(off)), clockOf(off), Reasons(&queue)))
	if off == validation {
		queueClient = written
	}
	queue = disruption.NewQueue(queueClient, discard{}, state.NewCluster(clock.RealClock{}, nil, nil), clock.RealClock{}, nil)
	machine := node()
	machine.Spec.ProviderID = claim(nodeName).Status.ProviderID
	command := &disruption.Command{
		Method:            NewMethod(&disruption.Emptiness{}, nil),
		CreationTimestamp: time.Now(),
		Candidates: []*disruption.Candidate{{
			StateNode: &state.StateNode{Node: machine, NodeClaim: claim(nodeName)},
			NodePool:  &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		}},
	}
	if err := queue.StartCommand(ctx, command); err != nil {
		t.Fatal(err)
	}
	for queue.HasAny(claim(nodeName).Status.ProviderID) {
		result, err := queue.Reconcile(ctx, claim(nodeName))
		if err != nil {
			t.Fatal(err)
		}
		pause(ctx, result.RequeueAfter)
	}
}

// writes delay what Karpenter writes, have caches receive it, and record what the API server
// does with the NodeClaim.
func (r *race) writes() interceptor.Funcs {
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			pause(ctx, r.request)
			err := c.Patch(ctx, o, patch, opts...)
			if n, ok := o.(*corev1.Node); ok && err == nil {
				r.tainted(ctx, tainted(n))
			}
			pause(ctx, r.response)
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			pause(ctx, r.request)
			defer pause(ctx, r.response)
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			pause(ctx, r.request)
			err := c.Delete(ctx, o, opts...)
			if _, ok := o.(*karpv1.NodeClaim); ok && err == nil {
				r.deleted.Store(true)
				pods := &corev1.PodList{}
				if r.api.List(ctx, pods) != nil || len(pods.Items) > 0 {
					r.wrong.Store(true)
				}
			}
			pause(ctx, r.response)
			return err
		},
	}
}

// tainted has the scheduler's cache receive what the node has, and somebody remove the taint.
func (r *race) tainted(ctx context.Context, is bool) {
	time.AfterFunc(r.watch, func() { r.cachedTaint.Store(is) })
	if !is || r.untainted == 0 {
		return
	}
	time.AfterFunc(r.untainted, func() {
		n := &corev1.Node{}
		if err := r.api.Get(ctx, client.ObjectKey{Name: nodeName}, n); err == nil {
			n.Spec.Taints = nil
			if r.api.Update(ctx, n) == nil {
				time.AfterFunc(r.watch, func() { r.cachedTaint.Store(false) })
			}
		}
	})
}

// reads delay live reads and have the first lists fail; without liveReads a cache serves the pods.
func (r *race) reads(off without) interceptor.Funcs {
	read := func(ctx context.Context, from func() error) error {
		pause(ctx, r.request)
		defer pause(ctx, r.response)
		return from()
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return read(ctx, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if off == liveReads && !r.cachedPod.Load() {
				return nil
			}
			return read(ctx, func() error {
				if r.failed.Add(1) <= r.failing {
					return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
				}
				return c.List(ctx, list, opts...)
			})
		},
	}
}

// atOnce is a clock whose waits end at once.
type atOnce struct{ clock.RealClock }

func (c atOnce) After(time.Duration) <-chan time.Time { return c.RealClock.After(0) }

func clockOf(off without) clock.Clock {
	if off == delay {
		return atOnce{}
	}
	return clock.RealClock{}
}

type discard struct{}

func (discard) Publish(...events.Event) {}

// A pod is bound at any millisecond around the taint, while watches, bindings, evictions, reads
// and writes take their time.
func TestNoNodeIsTerminatedUnderAPodThatIsBoundAroundTheTaint(t *testing.T) {
	seed := cmp.Or(*raceSeed, uint64(time.Now().UnixNano()))
	t.Logf("the seed is %d: repeat it with -race.seed", seed)
	for _, test := range []struct {
		off   without
		races int
	}{{nothing, races}, {validation, racesWithout}, {liveReads, racesWithout}, {delay, racesWithout}} {
		name := "with the whole validation"
		if test.off != nothing {
			name = "without " + string(test.off)
		}
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, seed))
			terminated, kept, wrong := 0, 0, 0
			for i := range test.races {
				d := randomDelays(r)
				out := run(t, d, test.off)
				switch {
				case out.wrong:
					wrong++
					if test.off == nothing {
						t.Errorf("race %d: the node was terminated under the pod: %+v", i, d)
					}
				case out.terminated:
					terminated++
				default:
					kept++
					if out.tainted {
						t.Errorf("race %d: the node was kept with its taint: %+v", i, d)
					}
					if !out.bound && d.untainted == 0 {
						t.Errorf("race %d: the node was kept without a pod: %+v", i, d)
					}
				}
			}
			t.Logf("%d nodes were terminated rightly, %d wrongly, and %d kept", terminated, wrong, kept)
			if terminated == 0 || test.off == nothing && kept == 0 || test.off != nothing && wrong == 0 {
				t.Error("the races do not cover that")
			}
		})
	}
}
