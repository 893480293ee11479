package updater

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
)

const gpuParameter = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"

// bench is a Updater whose SSM is a table.
type bench struct {
	*testing.T
	*Updater
	ssm       map[string]ssmversion.Reading
	down      error
	requested []string
	events    *record.FakeRecorder
	now       *clocktesting.FakePassiveClock
	// refused is what writes get, or nil.
	refused error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: "poolwright", UID: "1"}}
	sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSSMParameter, Name: gpuParameter, Variable: "GPU"}}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithStatusSubresource(sync)
	b := &bench{
		T: t, ssm: map[string]ssmversion.Reading{gpuParameter: {Value: "ami-1", Version: 1}}, events: record.NewFakeRecorder(50),
		now: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)),
	}
	live := server.WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if b.refused != nil {
				return b.refused
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	b.Updater = New(Config{Live: live, Events: b.events, Clock: b.now, Read: func(_ context.Context, names []string) (map[string]ssmversion.Reading, error) {
		b.requested = append(b.requested, names...)
		out := map[string]ssmversion.Reading{}
		for _, name := range names {
			one, ok := b.ssm[name]
			if b.down == nil && !ok {
				return out, state.Failf(state.Stalled, "ParameterNotFound", "SSM parameter %s does not exist", name)
			}
			if b.down == nil {
				out[name] = one
			}
		}
		return out, b.down
	}})
	return b
}

func (b *bench) sync() *v1alpha1.Sync {
	b.Helper()
	var sync v1alpha1.Sync
	if err := b.cfg.Live.Get(b.Context(), client.ObjectKey{Namespace: "poolwright", Name: "dev"}, &sync); err != nil {
		b.Fatal(err)
	}
	return &sync
}

// edit changes the Sync as a user does.
func (b *bench) edit(change func(*v1alpha1.Sync)) {
	b.Helper()
	sync := b.sync()
	change(sync)
	if err := b.cfg.Live.Update(b.Context(), sync); err != nil {
		b.Fatal(err)
	}
}

// fetch is one fetch: the value of ${GPU}, how many parameters it asked for, the events.
func (b *bench) fetch() (value string, requested int, events []string) {
	b.Helper()
	b.requested = nil
	values, err := b.Values(b.Context(), b.sync())
	if err != nil {
		b.Fatal(err)
	}
	return values["GPU"], len(b.requested), b.eventReasons()
}

// eventReasons are the reasons of the events since it was asked last.
func (b *bench) eventReasons() (reasons []string) {
	for {
		select {
		case e := <-b.events.Events:
			reasons = append(reasons, strings.Fields(e)[1])
		default:
			return reasons
		}
	}
}

func (b *bench) expect(doing, value string, requested int, events ...string) {
	b.Helper()
	gotValue, gotRequested, gotEvents := b.fetch()
	if gotValue != value || gotRequested != requested || cmp.Diff(events, gotEvents) != "" {
		b.Errorf("%s: %s after asking for %d parameters, with events %v; want %s, %d, %v", doing, gotValue, gotRequested, gotEvents, value, requested, events)
	}
}

func TestAParameterIsPinnedUntilAPersonRequestsTheNewest(t *testing.T) {
	b := newBench(t)
	b.expect("first", "ami-1", 1)
	want := []v1alpha1.PinnedParameter{{Variable: "GPU", Name: gpuParameter, Value: "ami-1", Version: 1, PinnedAt: metav1.NewTime(b.now.Now())}}
	if diff := cmp.Diff(want, b.sync().Status.Parameters, cmp.Comparer(func(x, y metav1.Time) bool { return x.Equal(&y) })); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
	b.expect("at once again", "ami-1", 0)
	b.ssm[gpuParameter] = ssmversion.Reading{Value: "ami-2", Version: 2}
	b.now.SetTime(b.now.Now().Add(59 * time.Minute))
	b.expect("within the hour", "ami-1", 0)
	b.now.SetTime(b.now.Now().Add(time.Minute))
	b.expect("after an hour", "ami-1", 1, "ParameterOutdated")
	if got := b.sync().Status.Parameters[0]; got.Latest != "ami-2" || got.Value != "ami-1" {
		t.Errorf("the status is %+v", got)
	}
	b.now.SetTime(b.now.Now().Add(time.Hour))
	b.expect("after two", "ami-1", 1)
	b.edit(func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.UpdateParametersAnnotation: "now"} })
	b.expect("asked to", "ami-2", 1, "ParametersUpdated")
	if got := b.sync().Status; got.Parameters[0].Latest != "" || got.Parameters[0].Value != "ami-2" || got.LastHandledUpdateParameters != "now" {
		t.Errorf("the status is %+v", got)
	}
	b.expect("and once", "ami-2", 0)
}

func TestANewProcessKeepsThePins(t *testing.T) {
	b := newBench(t)
	b.expect("first", "ami-1", 1)
	b.ssm[gpuParameter] = ssmversion.Reading{Value: "ami-2", Version: 2}
	b.known = map[client.ObjectKey]lastRead{}
	b.expect("in another process", "ami-1", 1, "ParameterOutdated")
	b.known = map[client.ObjectKey]lastRead{}
	b.expect("in a third", "ami-1", 1)
}

func TestPinsAreUsedWhileSSMIsAway(t *testing.T) {
	b := newBench(t)
	b.down = errors.New("throttled")
	if values, err := b.Values(t.Context(), b.sync()); err == nil || !strings.Contains(err.Error(), "throttled") {
		t.Errorf("without a pin: %v, %v", values, err)
	}
	b.down = nil
	b.expect("first", "ami-1", 1)
	b.down, b.ssm[gpuParameter] = errors.New("throttled"), ssmversion.Reading{Value: "ami-2", Version: 2}
	for n, events := range [][]string{{"ParametersUnreadable"}, nil} {
		b.now.SetTime(b.now.Now().Add(time.Hour))
		b.expect("hour "+string(rune('1'+n)), "ami-1", 1, events...)
	}
	// An update waits, and is tried at each fetch.
	b.edit(func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.UpdateParametersAnnotation: "now"} })
	b.expect("an update", "ami-1", 1)
	b.expect("an update once more", "ami-1", 1)
	if got := b.sync().Status.LastHandledUpdateParameters; got != "" {
		t.Errorf("the update was called done: %q", got)
	}
	b.down = nil
	b.expect("SSM is back", "ami-2", 1, "ParametersUpdated")
}

func TestAChangedEntryIsTakenAnewAndItsErrorStopsNothingButItself(t *testing.T) {
	b := newBench(t)
	b.expect("first", "ami-1", 1)
	b.edit(func(s *v1alpha1.Sync) { s.Spec.SubstituteFrom[0].Name += "/wrong" })
	_, err := b.Values(t.Context(), b.sync())
	if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "ParameterNotFound" {
		t.Errorf("a wrong name: %v", err)
	}
	if got := b.sync().Status.Parameters; len(got) != 1 || got[0].Value != "ami-1" {
		t.Errorf("the pin was given up: %+v", got)
	}
	b.edit(func(s *v1alpha1.Sync) {
		s.Spec.SubstituteFrom[0].Name, s.Spec.SubstituteFrom[0].Variable = gpuParameter, "OTHER"
	})
	b.ssm[gpuParameter] = ssmversion.Reading{Value: "ami-2", Version: 2}
	values, err := b.Values(t.Context(), b.sync())
	if diff := cmp.Diff(map[string]string{"OTHER": "ami-2"}, values); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

func TestAParameterThatNobodyNamesAnyMoreIsDropped(t *testing.T) {
	b := newBench(t)
	b.expect("first", "ami-1", 1)
	b.edit(func(s *v1alpha1.Sync) { s.Spec.SubstituteFrom = nil })
	b.expect("without it", "", 0)
	if got := b.sync(); got.Status.Parameters != nil {
		t.Errorf("the status has %+v", got.Status.Parameters)
	}
}

// What is decided is on record before anybody can use it, or it is not decided.
func TestAPinThatCannotBeWrittenIsNotUsed(t *testing.T) {
	b := newBench(t)
	fenced := errors.New("another replica leads")
	b.refused = fenced
	if values, err := b.Values(t.Context(), b.sync()); !errors.Is(err, fenced) || values != nil {
		t.Errorf("without the lease: %v, %v", values, err)
	}
	if got := b.sync().Status.Parameters; got != nil {
		t.Errorf("written all the same: %+v", got)
	}
}

func TestANewerValueThatCouldNotBeWrittenIsRequestedAgain(t *testing.T) {
	b := newBench(t)
	b.expect("first", "ami-1", 1)
	b.ssm[gpuParameter] = ssmversion.Reading{Value: "ami-2", Version: 2}
	b.now.SetTime(b.now.Now().Add(time.Hour))
	fenced := errors.New("another replica leads")
	b.refused = fenced
	if _, err := b.Values(t.Context(), b.sync()); !errors.Is(err, fenced) || b.eventReasons() != nil {
		t.Errorf("without the lease: %v", err)
	}
	b.refused = nil
	b.expect("with the lease", "ami-1", 1, "ParameterOutdated")
	if got := b.sync().Status.Parameters[0].Latest; got != "ami-2" {
		t.Errorf("the newest value is %q", got)
	}
	b.expect("at once again", "ami-1", 0)
}

func TestAPinIsDecidedByTheSyncsSpecWhenItIsWritten(t *testing.T) {
	b := newBench(t)
	old := b.sync()
	b.edit(func(s *v1alpha1.Sync) { s.Labels = map[string]string{"changed": "meanwhile"} })
	values, err := b.Values(t.Context(), old)
	if err != nil || values["GPU"] != "ami-1" || b.sync().Status.Parameters[0].Value != "ami-1" {
		t.Errorf("%v, %v", values, err)
	}
	// Another process was faster.
	old = b.sync()
	old.Status.Parameters = nil
	b.ssm[gpuParameter] = ssmversion.Reading{Value: "ami-2", Version: 2}
	b.edit(func(s *v1alpha1.Sync) { s.Labels = nil })
	if values, err = b.Values(t.Context(), old); err != nil || values["GPU"] != "ami-1" {
		t.Errorf("the pin of the other is lost: %v, %v", values, err)
	}
}

func TestAnEventReportsThatAParameterIsNotUsed(t *testing.T) {
	one := v1alpha1.PinnedParameter{Variable: "GPU", Name: gpuParameter, Value: "ami-2", Latest: "ami-3"}
	sync := &v1alpha1.Sync{}
	for _, set := range []bool{false, true} {
		if set {
			sync.Spec.Substitute = map[string]string{"GPU": "ami-hand"}
		}
		events := record.NewFakeRecorder(2)
		New(Config{Events: events}).announce(sync, ssmversion.Resolution{Updated: []v1alpha1.PinnedParameter{one}, Outdated: []v1alpha1.PinnedParameter{one}})
		for range 2 {
			if got := <-events.Events; strings.Contains(got, "nothing uses it: spec.substitute sets ${GPU}") != set || !strings.Contains(got, "ami-2 for ${GPU}") {
				t.Errorf("set %v: %s", set, got)
			}
		}
	}
}
