package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/metrics"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// place is a target in memory that owns everything in it.
type place struct {
	// meanwhile is what happens as a correction begins; may be nil.
	meanwhile     func()
	mu            gosync.Mutex // Corrections come several at a time.
	name          string
	live, applied map[string]string
	// unknown has the things that cannot be read, compared those that are
	// never written, refused those that cannot be, each with the reason.
	unknown, compared, refused map[string]string
	// marked has until when a person marked live things to stay as they are; nil for none.
	marked map[string]string
	// removals is what the deletion of things costs.
	removals map[string]loss.DeletionImpact
	// allowed is how far deletions that were begun were allowed.
	allowed map[string]*loss.Approval
	writes  []string
	// fullComparisons counts the comparisons in full.
	fullComparisons int
	// typeless is true where the pools allow no instance type, so that the stage alone decides what they need.
	typeless bool
}

func newPlace(name string) *place {
	return &place{name: name, live: map[string]string{}, applied: map[string]string{}, unknown: map[string]string{}, compared: map[string]string{}, refused: map[string]string{}, removals: map[string]loss.DeletionImpact{}, allowed: map[string]*loss.Approval{}}
}

func at(target, name string) state.Key {
	if strings.HasPrefix(name, "np-") {
		return state.Key{Target: target, Group: "karpenter.sh", Kind: "NodePool", Name: name}
	}
	if name == "engine" {
		return state.Key{Target: target, Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Name: name}
	}
	return state.Key{Target: target, Group: map[string]string{"aws": "sqs"}[target], Kind: "Thing", Name: name}
}

func (p *place) item(name, value string) state.Item {
	object := map[string]any{"value": value}
	if name == "engine" && value == "queue" {
		object["spec"] = map[string]any{"interruptionQueue": map[string]any{}}
	}
	if p.typeless && strings.HasPrefix(name, "np-") {
		none := map[string]any{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": []any{"none"}}
		object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"requirements": []any{none}}}}
	}
	return state.Item{Key: at(p.name, name), Object: object, Live: state.Preconditions{UID: name}, DeletionImpact: p.removals[name]}
}

func (p *place) Desired(_ context.Context, d state.Set) (state.Set, error) {
	var items []state.Item
	for _, i := range d.Items() {
		if i.Key.Target == p.name {
			i.ReadOnly = p.compared[i.Key.Name]
			items = append(items, i)
		}
	}
	return state.NewSet(items...), nil
}

func (p *place) Observe(_ context.Context, desired state.Set) (state.Set, error) {
	p.fullComparisons++
	names := map[string]bool{}
	for name := range p.live {
		names[name] = true
	}
	for _, i := range desired.Items() {
		names[i.Key.Name] = true
		delete(p.allowed, i.Key.Name)
	}
	var items []state.Item
	for name := range names {
		if why := p.unknown[name]; why != "" {
			lost := state.Item{Key: at(p.name, name), Observation: state.Observation{Unknown: why}, DeletionImpact: p.removals[name]}
			if applied, ours := p.applied[name]; ours {
				lost.Applied = state.Hash(p.item(name, applied).Object)
			}
			items = append(items, lost)
			continue
		}
		i := p.item(name, p.live[name])
		i.Allowed, i.HoldUntil = p.allowed[name], p.marked[name]
		if _, exists := p.live[name]; !exists {
			i.Object = nil
		}
		if applied, ours := p.applied[name]; ours {
			i.Applied = state.Hash(p.item(name, applied).Object)
		}
		if i.Object != nil || i.Applied != "" {
			items = append(items, i)
		}
	}
	return state.NewSet(items...), nil
}

func (p *place) RevokeApprovals(_ context.Context, revoked ...state.Key) error {
	for _, k := range revoked {
		delete(p.allowed, k.Name)
	}
	return nil
}

func (p *place) Deleting(context.Context) ([]state.Key, error) {
	var out []state.Key
	for name := range p.allowed {
		out = append(out, at(p.name, name))
	}
	return out, nil
}

func (p *place) Begin(_ context.Context, changes []plan.Change) error {
	for _, c := range changes {
		if c.Action == plan.Delete {
			p.allowed[c.Key.Name] = c.Approval()
		}
	}
	return nil
}

func (p *place) End(context.Context) error { return nil }

func (p *place) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	all, err := p.Observe(ctx, desired)
	p.fullComparisons--
	var keys []state.Key
	for _, i := range desired.Items() {
		keys = append(keys, i.Key)
	}
	return all.Only(keys), err
}

func (p *place) Apply(_ context.Context, c plan.Change) error {
	if p.meanwhile != nil {
		p.meanwhile()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := c.Key.Name
	if why := p.refused[name]; why != "" {
		return errors.New(why)
	}
	p.writes = append(p.writes, string(c.Action)+" "+name)
	if c.Action == plan.Delete {
		delete(p.live, name)
		delete(p.applied, name)
		delete(p.allowed, name)
		return nil
	}
	p.live[name] = c.After.Object["value"].(string)
	p.applied[name] = p.live[name]
	return nil
}

// stage is a Sync, its two targets, and what it says.
type stage struct {
	*testing.T
	aws, cluster *place
	r            *SyncReconciler
	clock        *clocktesting.FakeClock
	events       *record.FakeRecorder
	registry     *prometheus.Registry
	// declared and revision are what Git says, unless problem is what it is.
	declared  []state.Item
	revision  string
	loadError error
	// origins has the origins of the revisions that are of artifacts.
	origins map[string]string
	// unread is why the source cannot be read.
	unread error
	// problems are the problems in single objects of the repository.
	problems []state.Problem
	// nodes is what each change of a pool np-* that is there costs, foretold how often it was asked.
	nodes, foretold int
	// quota is how many vCPUs each pool may need; 0 where no quota is read.
	quota int64
	// health is that of the Sync's objects.
	health checkedHealth
	// reviews are what was told of pull requests.
	reviews []plan.Review
}

var stageName = types.NamespacedName{Namespace: "poolwright-system", Name: "dev"}

func newStage(t *testing.T, edit func(*v1alpha1.Sync)) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: stageName.Namespace, Name: stageName.Name, UID: "sync", Generation: 1}}
	sync.Spec.Interval.Duration = time.Minute
	if edit != nil {
		edit(sync)
	}
	s := &stage{
		T: t, aws: newPlace("aws"), cluster: newPlace("kubernetes"), revision: "main@sha1:1",
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), events: record.NewFakeRecorder(100), registry: prometheus.NewRegistry(),
	}
	series, err := metrics.New(s.registry)
	if err != nil {
		t.Fatal(err)
	}
	s.r = &SyncReconciler{
		Client:    fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithStatusSubresource(sync).Build(),
		Namespace: stageName.Namespace, Recorder: withoutAnnotations{s.events}, Metrics: series, Clock: s.clock, Jitter: jitter.NoJitter,
		Build: func(context.Context, *v1alpha1.Sync) (SyncRuntime, error) {
			loop := reconciler.NewLoop(s, s.load, reconciler.NamedTarget{Name: "aws", Target: s.aws}, reconciler.NamedTarget{Name: "kubernetes", Target: s.cluster})
			return SyncRuntime{Loop: loop, Guard: s.consider, Health: &s.health, Orphan: func(context.Context) error { return nil }}, nil
		},
	}
	s.r.Live = s.r.Client
	s.r.states.notify = func(types.NamespacedName) {}
	// On a busy machine a fetch may take longer than what a reconciliation waits for it, and the result of the next one
	// would be that of before.
	s.r.states.timeout = time.Hour
	t.Cleanup(s.r.states.close)
	return s
}

// withoutAnnotations records events without their annotations, as most tests compare them.
type withoutAnnotations struct{ *record.FakeRecorder }

func (r withoutAnnotations) AnnotatedEventf(about runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(about, kind, reason, format, args...)
}

// Fetch makes the stage its own source.
func (s *stage) Fetch(context.Context) (gitsource.Snapshot, error) {
	return gitsource.Snapshot{Revision: s.revision, OriginRevision: s.origins[s.revision]}, s.unread
}

func (s *stage) load(context.Context, gitsource.Snapshot) (declared.Declared, error) {
	return declared.Declared{Set: state.NewSet(s.declared...), Problems: s.problems}, s.loadError
}

// consider holds what the Sync's guard and the reviews do not allow.
func (s *stage) consider(_ context.Context, sync *v1alpha1.Sync, p plan.Plan) plan.Plan {
	var limit *int
	if most := sync.Spec.Guard.MaxNodesReplaced; most != nil {
		limit = new(int(*most))
	}
	if s.quota > 0 {
		p.Quotas = []plan.Quota{{Quota: state.Quota{LimitVCPUs: s.quota}}}
		if sync.Spec.Guard.Quota == v1alpha1.QuotaHold {
			p = p.GuardQuotas(sync.Annotations[v1alpha1.ConfirmAnnotation], s.short)
		}
	}
	return p.GuardNodes(limit, s.reviews, sync.Annotations[v1alpha1.ConfirmAnnotation], func(changes []plan.Change) hold.Nodes {
		s.foretold++
		out := hold.Nodes{Pools: map[string]int{}}
		for _, c := range changes {
			if c.Action != plan.Create {
				out.Replaced, out.Pools[c.Key.Name] = out.Replaced+s.nodes, s.nodes
			}
		}
		return out
	})
}

// short has every pool need as many vCPUs as its value.
func (s *stage) short(before, after []state.Item, quotas []plan.Quota) []hold.Quota {
	var out []hold.Quota
	for _, item := range after {
		needs, err := strconv.ParseInt(fmt.Sprint(item.Object["value"]), 10, 64)
		if err != nil {
			s.Fatal(err)
		}
		if needs > quotas[0].LimitVCPUs {
			pool := []string{item.Key.Name}
			out = append(out, hold.Quota{Codes: []string{"L-1"}, Pools: pool, IncreasedPools: pool, NeededVCPUs: needs, LimitVCPUs: quotas[0].LimitVCPUs})
		}
	}
	return out
}

// edit changes the Sync as a person does.
func (s *stage) edit(change func(*v1alpha1.Sync)) {
	s.Helper()
	sync := s.sync()
	change(sync)
	if err := s.r.Client.Update(s.Context(), sync); err != nil {
		s.Fatal(err)
	}
}

// confirm has tokens on the Sync.
func (s *stage) confirm(tokens string) {
	s.Helper()
	s.edit(func(sync *v1alpha1.Sync) {
		sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: tokens}
	})
}

// restart drops all that is not in the cluster.
func (s *stage) restart() { s.r.states.close() }

// commit declares things, each written target/name=value.
func (s *stage) commit(things ...string) {
	s.declared, s.revision = nil, s.revision+"1"
	for _, t := range things {
		name, value, _ := strings.Cut(t, "=")
		target, name, _ := strings.Cut(name, "/")
		of := newPlace(target)
		of.typeless = s.cluster.typeless
		i := of.item(name, value)
		i.Live, i.Origin = state.Preconditions{}, state.Origin{File: "cluster.yaml", Line: 9}
		s.declared = append(s.declared, i)
	}
}

// reconcile reconciles once and returns when the next reconciliation is.
func (s *stage) reconcile() time.Duration {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: stageName})
	if err != nil {
		s.Fatal(err)
	}
	return result.RequeueAfter
}

// later reconciles when the interval is over.
func (s *stage) later() time.Duration {
	s.Helper()
	s.clock.Step(70 * time.Second)
	return s.reconcile()
}

// drift is what a watch reports.
func (s *stage) drift(keys ...state.Key) {
	s.Helper()
	s.r.states.open[stageName].putBack(keys)
	s.reconcile()
}

func (s *stage) sync() *v1alpha1.Sync {
	s.Helper()
	var sync v1alpha1.Sync
	if err := s.r.Client.Get(s.Context(), stageName, &sync); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return &sync
}

// expectCondition checks a condition and returns its message.
func (s *stage) expectCondition(kind string, status metav1.ConditionStatus, reason string) string {
	s.Helper()
	c := meta.FindStatusCondition(s.sync().Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		s.Fatalf("%s is %+v, want %s %s", kind, c, status, reason)
	}
	return c.Message
}

// pending lists status.pending in short.
func (s *stage) pending() []string {
	out := []string{}
	for _, p := range s.sync().Status.Pending {
		out = append(out, p.Action+" "+p.Object+": "+p.Reason)
	}
	return out
}

// takeEvents are the events since the last call, but for those of success.
func (s *stage) takeEvents() []string {
	out := []string{}
	for {
		select {
		case e := <-s.events.Events:
			if !strings.Contains(e, "ReconciliationSucceeded") {
				out = append(out, e)
			}
		default:
			return out
		}
	}
}

// gauge reads a metric; -1 where it has no such series.
func (s *stage) gauge(name string, labels map[string]string) float64 {
	s.Helper()
	if m := s.metric(name, labels); m != nil {
		return m.GetGauge().GetValue()
	}
	return -1
}

func (s *stage) counter(name string, labels map[string]string) float64 {
	s.Helper()
	return s.metric(name, labels).GetCounter().GetValue()
}

func (s *stage) metric(name string, labels map[string]string) *dto.Metric {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		at := slices.IndexFunc(f.GetMetric(), func(m *dto.Metric) bool {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			return maps.Equal(got, labels)
		})
		if at >= 0 {
			return f.GetMetric()[at]
		}
	}
	return nil
}

func (s *stage) unknownIn(target string) float64 {
	s.Helper()
	return s.gauge("poolwright_sync_unknown_objects", map[string]string{"sync": "dev", "target": target})
}

// objects are what the status, the metric and Ready's message say of how many
// there are; they must agree.
func (s *stage) objects(want int) {
	s.Helper()
	status, metric := int(s.sync().Status.Objects), int(s.gauge("poolwright_sync_objects", map[string]string{"sync": "dev"}))
	if status != want || metric != want {
		s.Errorf("the status says %d objects, the metric %d, want %d", status, metric, want)
	}
	ready := meta.FindStatusCondition(s.sync().Status.Conditions, "Ready")
	if ready.Status == metav1.ConditionTrue && !strings.HasSuffix(ready.Message, ": "+plural.Count(want, "object")) {
		s.Errorf("Ready says %q, want %d objects", ready.Message, want)
	}
}

func (s *stage) driftedNow() float64 {
	s.Helper()
	return s.gauge("poolwright_sync_drifted_objects", map[string]string{"sync": "dev"})
}
