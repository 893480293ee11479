package collector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
	"github.com/poolwright/poolwright/reconciler/history/store"
)

var errKilled = errors.New("the process was killed")

// killed is a client of a process that is killed at one of its writes of the history: before it is sent, or after it was carried
// out. Nothing that it requests later is sent.
type killed struct {
	client.Client
	writes, at int
	after      bool
	dead       bool
}

func (k *killed) write(send func() error) error {
	if k.dead {
		return errKilled
	}
	k.writes++
	if k.writes != k.at {
		return send()
	}
	k.dead = true
	if k.after {
		return errors.Join(send(), errKilled)
	}
	return errKilled
}

func (k *killed) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	return k.write(func() error { return k.Client.Create(ctx, object, opts...) })
}

func (k *killed) Update(ctx context.Context, object client.Object, opts ...client.UpdateOption) error {
	return k.write(func() error { return k.Client.Update(ctx, object, opts...) })
}

func (k *killed) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if k.dead {
		return errKilled
	}
	return k.Client.Get(ctx, key, into, opts...)
}

// lifetime is when a node is launched, initialized and terminated, in steps of sampleInterval, and the part of its GPUs that its
// pod requests.
type lifetime struct {
	name                       string
	launched, ready, terminate int
	shares                     int64
}

const (
	// steps is how long a run is, gpusEach how many GPUs a node has, and sharesEach how many shares of them it advertises.
	steps      = 80
	gpusEach   = 4
	sharesEach = 40
	// earlier is how many nodes were terminated before the run: enough of them for an archive.
	earlier = 210
	// failover is how long there is no leader after one was killed.
	failover = 20 * time.Second
	// sampleSeconds are the GPU seconds of one sample of a node.
	sampleSeconds = gpusEach * float64(sampleInterval/time.Second)
)

func lifetimes() []lifetime {
	return []lifetime{{"a", 0, 4, 70, 20}, {"b", 2, 6, 20, 40}, {"c", 21, 25, 50, 0}, {"d", 51, 55, 56, 4}, {"e", 75, 78, steps + 99, 40}}
}

// process is one controller after another over one API server, of which one is killed. It does what Karpenter does: nothing while
// there is no controller, and else what is due.
type process struct {
	*testing.T
	namespace string
	clock     *clocktesting.FakeClock
	start     time.Time
	kube      *killed
	// recordsFirst is false for the control: nothing is recorded before a termination.
	recordsFirst bool

	*Collector
	claims map[string]*karpv1.NodeClaim
	gone   map[string]bool
	// ended is when each instance was terminated.
	ended map[string]time.Time
	// longest is how long it was at most between the last write of a controller and the first observation of the next one.
	longest, written time.Duration
}

// List implements client.Reader, as a cache does.
func (p *process) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	switch list := into.(type) {
	case *karpv1.NodeClaimList:
		for _, c := range p.claims {
			list.Items = append(list.Items, *c)
		}
	case *karpv1.NodePoolList:
		list.Items = []karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}}
	case *corev1.NodeList:
		for name := range p.claims {
			n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-" + name}}
			n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(sharesEach, resource.DecimalSI)}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			list.Items = append(list.Items, n)
		}
	case *corev1.PodList:
		for _, l := range lifetimes() {
			if l.shares > 0 && p.claims[l.name] != nil && options.FieldSelector.Matches(fields.Set{"spec.nodeName": "ip-" + l.name}) {
				pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "pod-" + l.name}}
				pod.Spec.NodeName = "ip-" + l.name
				pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(l.shares, resource.DecimalSI)}}}}
				list.Items = append(list.Items, pod)
			}
		}
	}
	return nil
}

func (p *process) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nothing is read by name")
}

// begin starts a controller, whose cache has what the API server has.
func (p *process) begin() {
	p.Helper()
	p.Collector = New(logr.Discard())
	if err := p.configure(Config{Cached: p, Live: p.kube, Namespace: p.namespace, Nodes: true, Registry: prometheus.NewRegistry(), Clock: p.clock, Log: logr.Discard()}); err != nil {
		p.Fatal(err)
	}
	for name := range p.claims {
		p.read(name)
	}
	p.leads.Store(true)
}

// read updates the cache with a claim of the API server's.
func (p *process) read(name string) {
	p.Helper()
	claim := &karpv1.NodeClaim{}
	err := server.Get(p.Context(), client.ObjectKey{Name: p.object(name)}, claim)
	switch {
	case client.IgnoreNotFound(err) != nil:
		p.Fatal(err)
	case err != nil:
		if !p.kube.dead {
			p.deleted(p.claims[name])
		}
		delete(p.claims, name)
		p.gone[name] = true
	default:
		claim.Status.NodeName = "ip-" + name
		p.claims[name] = claim
	}
}

func (p *process) object(name string) string { return p.namespace + "-" + name }

func (p *process) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// reach does what Karpenter does with a node at a step.
func (p *process) reach(l lifetime, step int) {
	p.Helper()
	claim := p.claims[l.name]
	switch {
	case claim == nil && step >= l.launched && !p.gone[l.name]:
		claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: p.object(l.name), Finalizers: []string{karpv1.TerminationFinalizer}, Labels: map[string]string{
			karpv1.NodePoolLabelKey: "gpu", karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelInstanceTypeStable: "g4dn.12xlarge",
			corev1.LabelTopologyRegion: "us-east-1", awsv1.LabelInstanceGPUCount: fmt.Sprint(gpusEach),
		}}}
		claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"}
		claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
		p.must(server.Create(p.Context(), claim))
		p.claims[l.name] = claim
		p.conditions(l.name, condition(karpv1.ConditionTypeLaunched, "Launched"))
	case claim == nil:
		return
	case step >= l.ready && becameTrueAt(claim, karpv1.ConditionTypeInitialized).IsZero():
		p.conditions(l.name, condition(karpv1.ConditionTypeRegistered, "Registered"), condition(karpv1.ConditionTypeInitialized, "Initialized"))
	case step >= l.terminate && claim.DeletionTimestamp == nil:
		p.conditions(l.name, condition(karpv1.ConditionTypeDisruptionReason, "Empty"))
		p.must(server.Delete(p.Context(), claim))
		p.read(l.name)
	case step > l.terminate && !p.gone[l.name]:
		p.terminate(l.name)
	}
}

// terminate is the reconciliation in which Karpenter terminates the instance and lets the claim go.
func (p *process) terminate(name string) {
	p.Helper()
	if p.recordsFirst {
		now, o := p.clock.Now(), p.observation(p.claims[name], nil)
		p.queue(func(s *recorder.State) { s.Terminating(now, o) })
		waiting := make(chan error, 1)
		p.step(p.Context(), []chan<- error{waiting})
	}
	if p.kube.dead {
		return
	}
	if _, known := p.ended[name]; !known {
		p.ended[name] = p.clock.Now()
	}
	p.conditions(name, condition(karpv1.ConditionTypeInstanceTerminating, "InstanceTerminating"))
	claim := p.claims[name].DeepCopy()
	claim.Finalizers = nil
	p.must(server.Patch(p.Context(), claim, client.MergeFrom(p.claims[name])))
	p.read(name)
}

func condition(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

func becameTrueAt(claim *karpv1.NodeClaim, kind string) *metav1.Time {
	at := becameTrue(claim, kind)
	return &at
}

// conditions sets conditions of a claim to true.
func (p *process) conditions(name string, conditions ...metav1.Condition) {
	p.Helper()
	claim := p.claims[name]
	for _, c := range conditions {
		if slices.ContainsFunc(claim.Status.Conditions, func(was status.Condition) bool { return was.Type == c.Type }) {
			continue
		}
		c.LastTransitionTime = metav1.NewTime(p.clock.Now())
		claim.Status.Conditions = append(claim.Status.Conditions, status.Condition(c))
	}
	claim.Status.NodeName = "ip-" + name
	p.must(server.Status().Update(p.Context(), claim))
}

// seed writes a history with nodes that were terminated long before.
func (p *process) seed() {
	p.Helper()
	s, at := &store.Store{Kube: server, Namespace: p.namespace}, p.start.Add(-5*time.Hour)
	state, err := s.Load(p.Context(), nil)
	p.must(err)
	for i := range earlier {
		price := 1.0
		o := recorder.Observation{NodeClaim: history.NodeClaim{
			UID: fmt.Sprint("earlier-", i), Name: fmt.Sprint("earlier-", i), NodePool: fmt.Sprint("pool-", i), GPUs: gpusEach, USDPerHour: &price,
			Lifecycle: history.Lifecycle{Created: metav1.NewTime(at), Launched: metav1.NewTime(at), Deleted: metav1.NewTime(at.Add(time.Minute)), Terminated: metav1.NewTime(at.Add(time.Minute))}, Reason: history.ReasonEmpty,
		}}
		state.Observe(at.Add(time.Minute), []recorder.Observation{o})
	}
	p.must(s.Save(p.Context(), state, func(string) bool { return true }))
}

// live lets all nodes live, and returns the history in the end. The controller is killed once, unless its client never is.
func (p *process) live() history.History {
	p.Helper()
	p.seed()
	p.begin()
	for step := 0; step <= steps; step++ {
		p.clock.SetTime(p.start.Add(time.Duration(step) * sampleInterval))
		if p.kube.dead {
			// Another replica leads only after a while; Karpenter does nothing meanwhile.
			step += int(failover / sampleInterval)
			p.clock.SetTime(p.start.Add(time.Duration(step) * sampleInterval))
			p.longest = p.clock.Now().Sub(p.start) - p.written
			p.kube.dead = false
			p.kube.at = 0
			p.begin()
		}
		for _, l := range lifetimes() {
			if !p.kube.dead {
				p.reach(l, step)
			}
		}
		if !p.kube.dead {
			p.step(p.Context(), nil)
		}
		if !p.kube.dead && p.saved.Equal(p.clock.Now()) {
			p.written = p.clock.Now().Sub(p.start)
		}
	}
	for range 2 { // Once more, so that nothing waits to be written, and whoever is missing is missing twice.
		p.step(p.Context(), nil)
		p.step(p.Context(), []chan<- error{make(chan<- error, 1)})
	}
	h, err := (&store.Store{Kube: server, Namespace: p.namespace}).Read(p.Context())
	p.must(err)
	return h
}

// newProcess is one whose controller is killed at a write, or never where that is 0.
func newProcess(t *testing.T, at int, after bool) *process {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "history-"}}
	if err := server.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	// What the API server dates is dated by its own clock.
	start := time.Now().UTC().Truncate(time.Second)
	p := &process{
		T: t, namespace: namespace.Name, clock: clocktesting.NewFakeClock(start), start: start, recordsFirst: true,
		kube:   &killed{Client: server, at: at, after: after},
		claims: map[string]*karpv1.NodeClaim{}, gone: map[string]bool{}, ended: map[string]time.Time{},
	}
	t.Cleanup(func() {
		for _, c := range p.claims {
			c = c.DeepCopy()
			c.Finalizers = nil
			_ = server.Update(context.Background(), c)
			_ = server.Delete(context.Background(), c)
		}
	})
	return p
}

// problems are what is wrong with a history.
func (p *process) problems(h history.History) []string {
	var out []string
	wrong := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	count, uids := map[string]int{}, map[string]int{}
	paid, usd := float64(earlier)*60*gpusEach, float64(earlier)/60
	var claims history.States
	for _, n := range h.NodeClaims {
		count[n.Name]++
		uids[n.UID]++
		claims = claims.Plus(n.GPUSeconds)
		if end, ended := p.ended[n.Name[len(n.Name)-1:]]; ended && n.UID != n.Name {
			want := end.Sub(n.Launched.Time).Seconds() * gpusEach
			if !n.Terminated.Time.Equal(end) || n.TerminationUnobserved || math.Abs(n.GPUSeconds.Paid-want) > 1e-6 {
				wrong("%s: paid %f from %s to %s, want %f until %s", n.Name, n.GPUSeconds.Paid, n.Launched, n.Terminated, want, end)
			}
			if n.Reason != history.ReasonEmpty {
				wrong("%s was terminated because of %s", n.Name, n.Reason)
			}
			paid += want
			usd += max(want/gpusEach, 60) / 3600 * *n.USDPerHour
		} else if n.UID != n.Name {
			paid, usd = paid+n.GPUSeconds.Paid, usd+*n.USD
			if want := h.Time.Sub(n.Launched.Time).Seconds() * gpusEach; math.Abs(n.GPUSeconds.Paid-want) > 1e-6 {
				wrong("%s: paid %f until now, want %f", n.Name, n.GPUSeconds.Paid, want)
			}
		}
		p.problemsOfGPUs(n, wrong)
	}
	for _, l := range lifetimes() {
		if n := count[p.object(l.name)]; n != 1 {
			wrong("%s was recorded %d times", l.name, n)
		}
	}
	if len(h.NodeClaims) != earlier+len(lifetimes()) || len(uids) != len(h.NodeClaims) {
		wrong("%d nodes with %d UIDs are recorded", len(h.NodeClaims), len(uids))
	}
	var sum, dollars history.States
	for _, hour := range h.PoolHours {
		sum, dollars = sum.Plus(hour.GPUSeconds), dollars.Plus(hour.USD)
	}
	if math.Abs(sum.Paid-paid) > 1e-6 || math.Abs(dollars.Paid-usd) > 1e-6 {
		wrong("in all hours %f GPU seconds and %f dollars are paid, want %f and %f", sum.Paid, dollars.Paid, paid, usd)
	}
	if !cmp.Equal(sum, claims, rounded) {
		wrong("the GPU seconds of all hours are %+v, those of all nodes %+v", sum, claims)
	}
	return out
}

// rounded compares sums of many nodes, each of which is written with milliseconds.
var rounded = cmpopts.EquateApprox(0, 0.01)

// problemsOfGPUs are those of what was requested of a node: what is missing of it is not observed, and five minutes at most. No more is
// requested or idle than its pod requested or left, and all of it together is no more than what is paid for since it was initialized.
func (p *process) problemsOfGPUs(n history.NodeClaim, wrong func(string, ...any)) {
	at := slices.IndexFunc(lifetimes(), func(l lifetime) bool { return p.object(l.name) == n.Name })
	if at < 0 || n.Initialized.IsZero() {
		return
	}
	end := n.Terminated.Time
	if end.IsZero() {
		end = p.clock.Now()
	}
	share := float64(lifetimes()[at].shares) / sharesEach
	initialized := end.Sub(n.Initialized.Time).Seconds() * gpusEach
	want := (initialized - 2*sampleInterval.Seconds()*gpusEach) * share
	gap := n.GPUSeconds.Unobserved
	if n.GPUSeconds.Requested < want-gap*share-1e-6 || gap > 5*60*gpusEach {
		wrong("%s: %f GPU seconds are requested and %f not observed, want %f", n.Name, n.GPUSeconds.Requested, gap, want)
	}
	for _, bound := range []struct {
		what      string
		got, most float64
	}{
		{"requested", n.GPUSeconds.Requested, initialized * share},
		{"idle", n.GPUSeconds.Idle, initialized * (1 - share)},
		{"requested, idle or not observed", n.GPUSeconds.Requested + n.GPUSeconds.Idle + gap, min(initialized, n.GPUSeconds.Paid)},
		{"allocatable or not observed", n.GPUSeconds.Allocatable + gap, min(initialized, n.GPUSeconds.Paid)},
	} {
		if bound.got > bound.most+1e-3 {
			wrong("%s: %f GPU seconds are %s, want at most %f", n.Name, bound.got, bound.what, bound.most)
		}
	}
	if p.kube.writes > 0 && p.longest == 0 && gap > 2*sampleInterval.Seconds()*gpusEach {
		wrong("%s: %f GPU seconds are not observed, and nothing was killed", n.Name, gap)
	}
}

func TestNoNodeIsLostOrDoubledWhereverTheLeaderIsKilled(t *testing.T) {
	p := newProcess(t, 0, false)
	for _, problem := range p.problems(p.live()) {
		t.Errorf("killed never: %s", problem)
	}
	writes := p.kube.writes
	if writes < 12 {
		t.Fatalf("there are only %d writes", writes)
	}
	longest := time.Duration(0)
	for at := 1; at <= writes; at++ {
		for _, after := range []bool{false, true} {
			p := newProcess(t, at, after)
			for _, problem := range p.problems(p.live()) {
				t.Errorf("killed at write %d of %d, carried out: %t: %s", at, writes, after, problem)
			}
			longest = max(longest, p.longest)
		}
	}
	t.Logf("%d writes; at most %s from the last write to the next leader", writes, longest)
	if longest > 5*time.Minute {
		t.Errorf("it is up to %s from the last write to the next leader", longest)
	}
}

// Each of these is more than what happened: a life that is recorded twice, and seconds that are counted twice.
func TestWhatIsCountedTwiceIsAProblem(t *testing.T) {
	p := newProcess(t, 0, false)
	h := p.live()
	if found := p.problems(h); len(found) > 0 {
		t.Fatalf("without any of it: %v", found)
	}
	at := slices.IndexFunc(h.NodeClaims, func(n history.NodeClaim) bool { return n.Name == p.object("a") })
	hour := slices.IndexFunc(h.PoolHours, func(hour history.PoolHour) bool { return hour.NodePool == "gpu" })
	for _, add := range []history.States{{Requested: sampleSeconds}, {Idle: sampleSeconds}, {Allocatable: sampleSeconds}, {Unobserved: sampleSeconds}} {
		for _, ofNode := range []bool{true, false} {
			changed := h
			changed.NodeClaims, changed.PoolHours = slices.Clone(h.NodeClaims), slices.Clone(h.PoolHours)
			if ofNode {
				changed.NodeClaims[at].GPUSeconds = h.NodeClaims[at].GPUSeconds.Plus(add)
			}
			changed.PoolHours[hour].GPUSeconds = h.PoolHours[hour].GPUSeconds.Plus(add)
			if len(p.problems(changed)) == 0 {
				t.Errorf("%+v in an hour, and in the record of the node %t: one sample more is no problem", add, ofNode)
			}
		}
	}
	twice := h
	twice.NodeClaims = append(slices.Clone(h.NodeClaims), h.NodeClaims[at])
	if len(p.problems(twice)) == 0 {
		t.Error("a life that is recorded twice is no problem")
	}
}

func TestWithoutARecordBeforeItATerminationIsLost(t *testing.T) {
	found := 0
	for at := 1; at <= 30; at++ {
		p := newProcess(t, at, false)
		p.recordsFirst = false
		found += len(p.problems(p.live()))
	}
	if found == 0 {
		t.Error("nothing is wrong where nothing is recorded before a termination")
	}
}
