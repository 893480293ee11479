package repairbackoff

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/provision/noderepair"
)

const gpuPool = "gpu"

// karpenters stands for Karpenter's method: a command for the first candidate for whose pods there is room.
type karpenters struct {
	disruption.Method
	reboot bool
	// noCapacityFor is the NodeClaim for whose pods there is none.
	noCapacityFor string
	totals        map[string]disruption.NodePoolTotals
}

func (*karpenters) Reason() karpv1.DisruptionReason { return karpv1.DisruptionReasonUnhealthy }

func (k *karpenters) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) {
	k.totals = totals
}

func (k *karpenters) ComputeCommands(_ context.Context, _ map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	candidates = slices.DeleteFunc(candidates, func(c *disruption.Candidate) bool { return c.NodeClaim.Name == k.noCapacityFor })
	if len(candidates) == 0 {
		return nil, nil
	}
	return []disruption.Command{{Candidates: candidates[:1], Reboot: k.reboot, Replacements: []*disruption.Replacement{
		{NodeClaim: &scheduling.NodeClaim{NodeClaimTemplate: scheduling.NodeClaimTemplate{NodePoolName: candidates[0].NodePool.Name, IsStaticNodeClaim: true}}},
	}}}, nil
}

// published are the events of the process, each once, as Karpenter's recorder publishes them.
type published struct{ events []events.Event }

func (p *published) Publish(all ...events.Event) {
	for _, e := range all {
		if !slices.ContainsFunc(p.events, func(o events.Event) bool { return o.Reason == e.Reason && slices.Equal(o.DedupeValues, e.DedupeValues) }) {
			p.events = append(p.events, e)
		}
	}
}

func (p *published) lines() []string {
	var out []string
	for _, e := range p.events {
		object, _ := e.InvolvedObject.(client.Object)
		out = append(out, strings.Join([]string{e.Type, e.Reason, object.GetName(), e.Message}, " | "))
	}
	return out
}

// fixture is an API server with the NodePools, and a clock.
type fixture struct {
	api      client.WithWatch
	clock    *clocktesting.FakeClock
	recorder *published
	inner    *karpenters
	released []string
	// get and patch are what a request for a NodePool fails with, where they are there. patch may change it before.
	get   func(name string) error
	patch func(c client.Client, name string) error
}

func start() time.Time { return time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC) }

func newFixture() *fixture {
	f := &fixture{clock: clocktesting.NewFakeClock(start()), recorder: &published{}, inner: &karpenters{}}
	f.api = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: gpuPool, UID: "1"}}, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "2"}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if f.get != nil {
					if err := f.get(key.Name); err != nil {
						return err
					}
				}
				return c.Get(ctx, key, object, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if f.patch != nil {
					if err := f.patch(c, object.GetName()); err != nil {
						return err
					}
				}
				return c.Patch(ctx, object, patch, options...)
			},
		}).Build()
	return f
}

// repair is one pass of a process that has just started. It returns which NodeClaims are disrupted.
func (f *fixture) repair(t *testing.T, candidates ...*disruption.Candidate) ([]string, error) {
	t.Helper()
	m := Decorate(f.inner, Config{Live: f.api, Writer: f.api, Clock: f.clock, Recorder: f.recorder, Release: func(pool string, count int64) {
		if count != 1 {
			t.Errorf("%d places are released", count)
		}
		f.released = append(f.released, pool)
	}})
	commands, err := m.ComputeCommands(t.Context(), nil, candidates...)
	var out []string
	for _, c := range commands {
		out = append(out, c.Candidates[0].NodeClaim.Name)
	}
	return out, err
}

// unhealthy is a node that is as old, and became unhealthy as long ago, as the minutes. It was initialized after one.
func (f *fixture) unhealthy(pool, name string, age, since int) *disruption.Candidate {
	ago := func(minutes int) metav1.Time {
		return metav1.NewTime(f.clock.Now().Add(-time.Duration(minutes) * time.Minute))
	}
	return &disruption.Candidate{
		NodePool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}},
		StateNode: &state.StateNode{
			Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node " + name)}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Reason: "NvidiaXID79Error", LastTransitionTime: ago(since)},
			}}},
			NodeClaim: &karpv1.NodeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("claim " + name), CreationTimestamp: ago(age)},
				Status:     karpv1.NodeClaimStatus{Conditions: []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: ago(age - 1)}}},
			},
		},
	}
}

func (f *fixture) annotation(t *testing.T, pool string) string {
	t.Helper()
	p := &karpv1.NodePool{}
	if err := f.api.Get(t.Context(), client.ObjectKey{Name: pool}, p); err != nil {
		t.Fatal(err)
	}
	return p.Annotations[noderepair.BackoffAnnotation]
}

// twoGo has two of the pool repaired, of which the second is the replacement of the first.
func (f *fixture) twoGo(t *testing.T) {
	t.Helper()
	for _, c := range []*disruption.Candidate{f.unhealthy(gpuPool, "a", 5000, 12), f.unhealthy(gpuPool, "b", 12, 11)} {
		if got, err := f.repair(t, c); err != nil || !slices.Equal(got, []string{c.NodeClaim.Name}) {
			t.Fatalf("%v is repaired: %v", got, err)
		}
		f.clock.Step(12 * time.Minute)
	}
}

func TestADriverThatFailsOnEachNewNodeDoesNotReplaceAllNodes(t *testing.T) {
	f := newFixture()
	var went []int // After how many minutes.
	name := "a"
	node := f.unhealthy(gpuPool, name, 5000, 10)
	for range 24 * 60 {
		got, err := f.repair(t, node)
		if err != nil {
			t.Fatal(err)
		}
		f.clock.Step(time.Minute)
		if len(got) > 0 {
			went = append(went, int(f.clock.Since(start()).Minutes())-1)
			// The replacement is unhealthy, and tolerated for ten minutes.
			f.clock.Step(12 * time.Minute)
			name += "a"
			node = f.unhealthy(gpuPool, name, 12, 10)
		}
		if f.clock.Since(start()) > 24*time.Hour {
			break
		}
	}
	// The back-offs of 5, 10, 20, 40, 80 and 120 minutes begin when the replacement's toleration has passed.
	want := []int{0, 13, 31, 54, 87, 140, 233, 366, 499, 632, 765, 898, 1031, 1164, 1297, 1430}
	if diff := cmp.Diff(want, went); diff != "" {
		t.Errorf("minutes at which a node goes (-want +got):\n%s", diff)
	}
}

func TestABackOffIsReportedOnceOnEachObject(t *testing.T) {
	f := newFixture()
	f.twoGo(t)
	node := f.unhealthy(gpuPool, "c", 12, 11)
	for range 3 {
		if got, err := f.repair(t, node); err != nil || len(got) > 0 {
			t.Fatalf("%v is repaired: %v", got, err)
		}
		f.clock.Step(time.Minute)
	}
	const message = `no node of nodepool "gpu" is repaired until 2026-12-01T12:29:00Z: replacements became unhealthy within an hour of their initialization`
	want := []string{"Warning | NodeRepairBlocked | c | " + message, "Warning | NodeRepairBlocked | c | " + message, "Warning | NodeRepairBlocked | gpu | " + message}
	if diff := cmp.Diff(want, f.recorder.lines()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheBackOffOfAPoolIsItsOwn(t *testing.T) {
	f := newFixture()
	f.twoGo(t)
	// The node of gpu that comes first is no replacement, and waits with the pool all the same.
	got, err := f.repair(t, f.unhealthy(gpuPool, "old", 5000, 11), f.unhealthy(gpuPool, "c", 12, 11), f.unhealthy("other", "d", 12, 11), f.unhealthy("gone", "e", 12, 11))
	if err != nil || !slices.Equal(got, []string{"d"}) {
		t.Errorf("%v is repaired: %v", got, err)
	}
	if text := f.annotation(t, "other"); !strings.Contains(text, `"repaired":["d"]`) {
		t.Errorf("the other pool has %q", text)
	}
}

func TestABackOffEndsWhereAPersonRemovesTheAnnotation(t *testing.T) {
	f := newFixture()
	f.twoGo(t)
	node := f.unhealthy(gpuPool, "c", 12, 11)
	if got, err := f.repair(t, node); err != nil || len(got) > 0 {
		t.Fatalf("%v is repaired: %v", got, err)
	}
	pool := &karpv1.NodePool{}
	if err := f.api.Get(t.Context(), client.ObjectKey{Name: gpuPool}, pool); err != nil {
		t.Fatal(err)
	}
	pool.Annotations = map[string]string{noderepair.BackoffAnnotation: "not JSON"}
	if err := f.api.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if got, err := f.repair(t, node); err != nil || !slices.Equal(got, []string{"c"}) {
		t.Errorf("%v is repaired: %v", got, err)
	}
}

func TestARebootIsNoReplacement(t *testing.T) {
	f := newFixture()
	f.inner.reboot = true
	if got, err := f.repair(t, f.unhealthy(gpuPool, "a", 5000, 11)); err != nil || len(got) != 1 {
		t.Fatalf("%v is rebooted: %v", got, err)
	}
	if text := f.annotation(t, gpuPool); text != "" {
		t.Errorf("recorded %q", text)
	}
}

func TestTheMethodIsStillKarpenters(t *testing.T) {
	inner := &karpenters{}
	m := Decorate(inner, Config{})
	if m.Reason() != karpv1.DisruptionReasonUnhealthy {
		t.Errorf("it disrupts for %s", m.Reason())
	}
	m.(disruption.NodePoolTotalsSetter).SetNodePoolTotals(map[string]disruption.NodePoolTotals{gpuPool: {}})
	if len(inner.totals) != 1 {
		t.Error("it does not get the totals of NodePools")
	}
}
