package aws

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// poolsTarget is a cluster that holds NodePools and nothing else.
type poolsTarget struct {
	mu   *sync.Mutex
	live map[string]state.Item
}

func (f poolsTarget) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	return state.NewSet(slices.DeleteFunc(declared.Items(), func(i state.Item) bool { return i.Key.Kind != "NodePool" })...), nil
}

func (f poolsTarget) Observe(context.Context, state.Set) (state.Set, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var items []state.Item
	for _, i := range f.live {
		items = append(items, i)
	}
	return state.NewSet(items...), nil
}

func (f poolsTarget) Apply(_ context.Context, c plan.Change) error {
	item := *c.After
	item.Origin, item.Live, item.Applied = state.Origin{}, state.Preconditions{UID: c.Key.Name}, state.Hash(item.Object)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[c.Key.Name] = item
	return nil
}

// quotaRun is a Sync's loop over an emulated account and a cluster of pools.
type quotaRun struct {
	*bench
	sync     *v1alpha1.Sync
	cluster  poolsTarget
	declared state.Set
	// requires is what the Cluster declares beside its engine.
	requires func(*v1alpha1.ClusterSpec)
	// withoutCluster is true where the Sync declares no Cluster.
	withoutCluster bool
	commits        string
}

// Fetch makes the run its own source.
func (r *quotaRun) Fetch(context.Context) (gitsource.Snapshot, error) {
	return gitsource.Snapshot{Revision: "main@sha1:" + r.commits}, nil
}

// newQuotaRun is a run of a Sync that holds what exceeds a quota, and its Loop.
func newQuotaRun(b *bench) (*quotaRun, *reconciler.Loop) {
	r := &quotaRun{bench: b, cluster: poolsTarget{&sync.Mutex{}, map[string]state.Item{}}, requires: nothing,
		sync: &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", UID: "sync"}, Spec: v1alpha1.SyncSpec{Guard: v1alpha1.Guard{Quota: v1alpha1.QuotaHold}}}}
	return r, r.loop()
}

// loop is a Loop of the Sync, as a controller that starts makes one.
func (r *quotaRun) loop() *reconciler.Loop {
	return reconciler.NewLoop(r, func(context.Context, gitsource.Snapshot) (declared.Declared, error) {
		return declared.Declared{Set: r.declared}, nil
	}, reconciler.NamedTarget{Name: Name, Target: r.target}, reconciler.NamedTarget{Name: "kubernetes", Target: r.cluster})
}

// runs declares the pools and leads the account and the cluster to them. It returns which pools are held, and why.
func (r *quotaRun) runs(loop *reconciler.Loop, pools ...state.Item) (held []string, result reconciler.Result) {
	r.Helper()
	r.declared, r.commits = withPools(r.declare(r.requires), pools...), r.commits+"1"
	if r.withoutCluster {
		r.declared = state.NewSet(pools...)
	}
	result, err := loop.RunOnce(r.Context(), reconciler.Options{Policies: syncpolicy.ForRun(r.sync, time.Now())})
	if err != nil || result.Outcome.Err() != nil {
		r.Fatal(err, result.Outcome.Err())
	}
	for _, c := range result.Plan.Changes {
		if c.Hold.Has(hold.QuotaExceeded) {
			held = append(held, c.Key.Name)
		}
	}
	return held, result
}

// gpus is the limit of a live pool; 0 where there is none.
func (r *quotaRun) gpus(pool string) int64 {
	spec, _ := r.cluster.live[pool].Object["spec"].(map[string]any)
	limits, _ := spec["limits"].(map[string]any)
	n, _ := limits["nvidia.com/gpu"].(int64)
	return n
}

// A quota is lowered, and what a revision then raises waits until the quota is raised again, or a person confirms.
func TestWhatExceedsTheAccountsQuotaWaitsUntilItIsRaisedOrConfirmed(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 128} })
	b.cloud.Restrict("EMULATED", b.engineOnly(), nil)
	r, loop := newQuotaRun(b)
	if held, _ := r.runs(loop, gpuPool("a", 10), gpuPool("b", 2)); len(held) > 0 || r.gpus("a") != 10 {
		t.Fatalf("within the quota %v are held, and a has %d GPUs", held, r.gpus("a"))
	}
	if err := b.cloud.SetQuota(gOnDemand, 64); err != nil {
		t.Fatal(err)
	}
	held, result := r.runs(loop, gpuPool("a", 10), gpuPool("b", 8), gpuPool("c", 1))
	if !slices.Equal(held, []string{"b", "c"}) || r.gpus("b") != 2 || r.gpus("c") != 0 {
		t.Fatalf("beyond the quota %v are held; b has %d GPUs, c %d", held, r.gpus("b"), r.gpus("c"))
	}
	if text := result.Plan.Reasons().String(); !strings.HasPrefix(text, "NodePools a, b and c need at least 76 vCPUs, the quota allows 64 (guard.quota)") {
		t.Errorf("the reason is %q", text)
	}
	if err := b.cloud.SetQuota(gOnDemand, 76); err != nil {
		t.Fatal(err)
	}
	if held, _ = r.runs(loop, gpuPool("a", 10), gpuPool("b", 8), gpuPool("c", 1)); len(held) > 0 || r.gpus("b") != 8 || r.gpus("c") != 1 {
		t.Fatalf("after the quota was raised %v are held; b has %d GPUs, c %d", held, r.gpus("b"), r.gpus("c"))
	}
	held, result = r.runs(loop, gpuPool("a", 10), gpuPool("b", 9), gpuPool("c", 1))
	if !slices.Equal(held, []string{"b"}) {
		t.Fatalf("beyond the quota again %v are held", held)
	}
	r.sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: result.Plan.Confirmation()}
	if held, _ = r.runs(loop, gpuPool("a", 10), gpuPool("b", 9), gpuPool("c", 1)); len(held) > 0 || r.gpus("b") != 9 {
		t.Errorf("confirmed, %v are held, and b has %d GPUs", held, r.gpus("b"))
	}
	delete(r.sync.Annotations, v1alpha1.ConfirmAnnotation)
	if held, _ = r.runs(loop, gpuPool("a", 9), gpuPool("b", 9), gpuPool("c", 2)); len(held) > 0 || r.gpus("c") != 2 {
		t.Errorf("where what is short is no shorter %v are held", held)
	}
}

// A failure of AWS must not let pass what the quota, could it be read, would hold.
func TestWhatNeedsMoreOfAQuotaThatCannotBeReadWaitsWhateverTheReason(t *testing.T) {
	for _, tt := range []struct {
		name     string
		requires func(*v1alpha1.ClusterSpec)
		fails    sandboxaws.Fault
		unknown  bool
	}{
		{"throttled, and nothing else of AWS is declared", nothing, sandboxaws.Fault{Service: "servicequotas", Throttle: true}, false},
		{"throttled, and a queue is declared", queued(deleting), sandboxaws.Fault{Service: "servicequotas", Throttle: true}, true},
		{"a failure of the service, and a queue is declared", queued(deleting), sandboxaws.Fault{Service: "servicequotas", Code: "ServiceException", Status: 500}, true},
		{"the instances that use it, and a queue is declared", queued(deleting), sandboxaws.Fault{Service: "ec2", Operation: "DescribeInstances", Throttle: true}, true},
		{"denied, and a queue is declared", queued(deleting), sandboxaws.Fault{Service: "servicequotas", Code: "AccessDeniedException", Status: 403}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 64} })
			r, loop := newQuotaRun(b)
			r.requires = tt.requires
			if held, _ := r.runs(loop, gpuPool("a", 2)); len(held) > 0 || r.gpus("a") != 2 {
				t.Fatalf("%v are held, and a has %d GPUs", held, r.gpus("a"))
			}
			end := b.fault(tt.fails)
			held, result := r.runs(loop, gpuPool("a", 100), gpuPool("b", 1))
			if !slices.Equal(held, []string{"a", "b"}) || r.gpus("a") != 2 || r.gpus("b") != 0 {
				t.Errorf("%v are held; a has %d GPUs, b %d", held, r.gpus("a"), r.gpus("b"))
			}
			if unknown := slices.ContainsFunc(result.Plan.Unknown, func(u plan.Unknown) bool { return isQuota(u.Key) }); unknown != tt.unknown {
				t.Errorf("unknown are %+v", result.Plan.Unknown)
			}
			if got := b.status().Unknown; len(got) != 1 {
				t.Errorf("the status has %+v", got)
			}
			end()
			if held, _ = r.runs(loop, gpuPool("a", 15), gpuPool("b", 1)); len(held) > 0 || r.gpus("a") != 15 || r.gpus("b") != 1 {
				t.Errorf("afterwards %v are held; a has %d GPUs, b %d", held, r.gpus("a"), r.gpus("b"))
			}
		})
	}
}

// What is declared beside the pools must not decide that nothing is compared.
func TestWhatNeedsMoreOfAQuotaThatIsNotComparedWaits(t *testing.T) {
	external := func(c *v1alpha1.ClusterSpec) { c.Engine.Mode = v1alpha1.EngineExternal }
	for _, tt := range []struct {
		name string
		then func(*quotaRun)
	}{
		{"the same commit removes the Cluster", func(r *quotaRun) { r.withoutCluster = true }},
		{"the same commit has the engine run elsewhere", func(r *quotaRun) { r.requires = external }},
		{"the controller has restarted, and the Cluster is gone", func(r *quotaRun) { r.restart(); r.withoutCluster = true }},
		{"the controller has restarted, and the Cluster has a problem", func(r *quotaRun) {
			r.restart()
			r.requires = func(c *v1alpha1.ClusterSpec) { c.Addons = []v1alpha1.Addon{{Name: "vpc-cni"}, {Name: "vpc-cni"}} }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, loop := newQuotaRun(newBench(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 64} }))
			if held, _ := r.runs(loop, gpuPool("a", 2)); len(held) > 0 || r.gpus("a") != 2 {
				t.Fatalf("%v are held, and a has %d GPUs", held, r.gpus("a"))
			}
			tt.then(r)
			held, result := r.runs(r.loop(), gpuPool("a", 3), gpuPool("b", 1))
			if !slices.Equal(held, []string{"a", "b"}) || r.gpus("a") != 2 || r.gpus("b") != 0 {
				t.Fatalf("%v are held; a has %d GPUs, b %d", held, r.gpus("a"), r.gpus("b"))
			}
			if text := result.Plan.Reasons().String(); !strings.Contains(text, "so the account whose quotas count is unknown") {
				t.Errorf("the reason is %q", text)
			}
			if held, _ = r.runs(r.loop(), gpuPool("a", 1)); len(held) > 0 || r.gpus("a") != 1 {
				t.Errorf("lowered, %v are held, and a has %d GPUs", held, r.gpus("a"))
			}
		})
	}
}

// Many steps from one base share what was observed of AWS for the same desired state. Which pools a quota is too small
// for is observed for each of them.
func TestAProposalWarnsOfTheQuotaOfItsOwnPools(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 64} })
	cached := preview.Cached(b.target, time.Hour, &preview.ObservedAt{}, time.Now)
	base := declared.Declared{Set: withPools(b.declare(nothing), gpuPool("a", 10))}
	for _, tt := range []struct {
		name  string
		pools []state.Item
		want  string
	}{
		{"a limit is raised beyond the quota", []state.Item{gpuPool("a", 17)}, "NodePool a (a.yaml:1) needs at least 68 vCPUs"},
		{"a pool is added beyond the quota", []state.Item{gpuPool("a", 10), gpuPool("b", 8)}, "NodePools a (a.yaml:1) and b (b.yaml:1) need at least 72 vCPUs"},
		{"a limit is lowered", []state.Item{gpuPool("a", 9)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := declared.Declared{Set: withPools(b.declare(nothing), tt.pools...)}
			got, err := reconciler.Propose(t.Context(), base, head, false, []reconciler.NamedTarget{{Name: Name, Target: cached}})
			if err != nil {
				t.Fatal(err)
			}
			warnings, _ := warned(got.Proposed)
			if text := strings.Join(warnings, "; "); (text == "") != (tt.want == "") || !strings.HasPrefix(text, tt.want) {
				t.Errorf("warned of %q", warnings)
			}
		})
	}
}
