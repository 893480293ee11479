package wire

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/pin"
	"github.com/poolwright/poolwright/reconciler/state"
)

const gpuParameter = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"

// pinBench is a pinner whose SSM is a table.
type pinBench struct {
	*testing.T
	*pinner
	ssm    map[string]pin.Reading
	down   error
	asked  []string
	events *record.FakeRecorder
	now    *clocktesting.FakePassiveClock
}

func newPinBench(t *testing.T) *pinBench {
	t.Helper()
	if _, err := directClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil { // registers the kinds
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: "poolwright", UID: "1"}}
	sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSSMParameter, Name: gpuParameter, As: "GPU"}}
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(sync).WithStatusSubresource(sync).Build()
	b := &pinBench{
		T: t, ssm: map[string]pin.Reading{gpuParameter: {Value: "ami-1", Version: 1}}, events: record.NewFakeRecorder(50),
		now: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)),
	}
	b.pinner = newPinner(live, func() error { return nil }, b.events)
	b.clock = b.now
	b.ask = func(_ context.Context, _ client.Reader, names []string) (map[string]pin.Reading, error) {
		b.asked = append(b.asked, names...)
		out := map[string]pin.Reading{}
		for _, name := range names {
			one, ok := b.ssm[name]
			if b.down == nil && !ok {
				return out, state.Failf(state.Fix, "ParameterNotFound", "SSM parameter %s does not exist", name)
			}
			if b.down == nil {
				out[name] = one
			}
		}
		return out, b.down
	}
	return b
}

func (b *pinBench) sync() *v1alpha1.Sync {
	b.Helper()
	var sync v1alpha1.Sync
	if err := b.live.Get(b.Context(), client.ObjectKey{Namespace: "poolwright", Name: "dev"}, &sync); err != nil {
		b.Fatal(err)
	}
	return &sync
}

// edit changes the Sync as a user does.
func (b *pinBench) edit(change func(*v1alpha1.Sync)) {
	b.Helper()
	sync := b.sync()
	change(sync)
	if err := b.live.Update(b.Context(), sync); err != nil {
		b.Fatal(err)
	}
}

// visit is one fetch: the value of ${GPU}, how many parameters it asked for, the events.
func (b *pinBench) visit() (value string, asked int, events []string) {
	b.Helper()
	b.asked = nil
	values, err := b.values(b.Context(), b.sync())
	if err != nil {
		b.Fatal(err)
	}
	return values["GPU"], len(b.asked), b.told()
}

// told are the reasons of the events since it was asked last.
func (b *pinBench) told() (reasons []string) {
	for {
		select {
		case e := <-b.events.Events:
			reasons = append(reasons, strings.Fields(e)[1])
		default:
			return reasons
		}
	}
}

func (b *pinBench) expect(doing, value string, asked int, events ...string) {
	b.Helper()
	gotValue, gotAsked, gotEvents := b.visit()
	if gotValue != value || gotAsked != asked || cmp.Diff(events, gotEvents) != "" {
		b.Errorf("%s: %s after asking for %d parameters, with events %v; want %s, %d, %v", doing, gotValue, gotAsked, gotEvents, value, asked, events)
	}
}

func TestAParameterIsPinnedUntilAPersonAsksForTheNewest(t *testing.T) {
	b := newPinBench(t)
	b.expect("first", "ami-1", 1)
	want := []v1alpha1.PinnedParameter{{Variable: "GPU", Name: gpuParameter, Value: "ami-1", Version: 1, PinnedAt: metav1.NewTime(b.now.Now())}}
	if diff := cmp.Diff(want, b.sync().Status.Parameters, cmp.Comparer(func(x, y metav1.Time) bool { return x.Equal(&y) })); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
	b.expect("at once again", "ami-1", 0)
	b.ssm[gpuParameter] = pin.Reading{Value: "ami-2", Version: 2}
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
	b := newPinBench(t)
	b.expect("first", "ami-1", 1)
	b.ssm[gpuParameter] = pin.Reading{Value: "ami-2", Version: 2}
	b.known = map[client.ObjectKey]asking{}
	b.expect("in another process", "ami-1", 1, "ParameterOutdated")
	b.known = map[client.ObjectKey]asking{}
	b.expect("in a third", "ami-1", 1)
}

func TestPinsAreUsedWhileSSMIsAway(t *testing.T) {
	b := newPinBench(t)
	b.down = errors.New("throttled")
	if values, err := b.values(t.Context(), b.sync()); err == nil || !strings.Contains(err.Error(), "throttled") {
		t.Errorf("without a pin: %v, %v", values, err)
	}
	b.down = nil
	b.expect("first", "ami-1", 1)
	b.down, b.ssm[gpuParameter] = errors.New("throttled"), pin.Reading{Value: "ami-2", Version: 2}
	for n, events := range [][]string{{"ParametersUnreadable"}, nil} {
		b.now.SetTime(b.now.Now().Add(time.Hour))
		b.expect("hour "+string(rune('1'+n)), "ami-1", 1, events...)
	}
	// An update waits, and is tried at each visit.
	b.edit(func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.UpdateParametersAnnotation: "now"} })
	b.expect("an update", "ami-1", 1)
	b.expect("an update once more", "ami-1", 1)
	if got := b.sync().Status.LastHandledUpdateParameters; got != "" {
		t.Errorf("the update was called done: %q", got)
	}
	b.down = nil
	b.expect("SSM is back", "ami-2", 1, "ParametersUpdated")
}

func TestAChangedEntryIsTakenAnewAndItsMistakeStopsNothingButItself(t *testing.T) {
	b := newPinBench(t)
	b.expect("first", "ami-1", 1)
	b.edit(func(s *v1alpha1.Sync) { s.Spec.SubstituteFrom[0].Name += "/wrong" })
	_, err := b.values(t.Context(), b.sync())
	if class, reason, _ := state.Classify(err); class != state.Fix || reason != "ParameterNotFound" {
		t.Errorf("a wrong name: %v", err)
	}
	if got := b.sync().Status.Parameters; len(got) != 1 || got[0].Value != "ami-1" {
		t.Errorf("the pin was given up: %+v", got)
	}
	b.edit(func(s *v1alpha1.Sync) {
		s.Spec.SubstituteFrom[0].Name, s.Spec.SubstituteFrom[0].As = gpuParameter, "OTHER"
	})
	b.ssm[gpuParameter] = pin.Reading{Value: "ami-2", Version: 2}
	values, err := b.values(t.Context(), b.sync())
	if diff := cmp.Diff(map[string]string{"OTHER": "ami-2"}, values); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

func TestAParameterThatNobodyNamesAnyMoreIsForgotten(t *testing.T) {
	b := newPinBench(t)
	b.expect("first", "ami-1", 1)
	b.edit(func(s *v1alpha1.Sync) { s.Spec.SubstituteFrom = nil })
	if !substitutes(b.sync()) {
		t.Error("nobody would look at the parameters again")
	}
	b.expect("without it", "", 0)
	if got := b.sync(); got.Status.Parameters != nil || substitutes(got) {
		t.Errorf("the status has %+v", got.Status.Parameters)
	}
}

// What is decided is on record before anybody can use it, or it is not decided.
func TestAPinThatCannotBeWrittenIsNotUsed(t *testing.T) {
	b := newPinBench(t)
	b.fresh = func() error { return errFenced }
	if values, err := b.values(t.Context(), b.sync()); !errors.Is(err, errFenced) || values != nil {
		t.Errorf("without the lease: %v, %v", values, err)
	}
	if got := b.sync().Status.Parameters; got != nil {
		t.Errorf("written all the same: %+v", got)
	}
}

func TestAPinIsDecidedByWhatTheSyncSaysWhenItIsWritten(t *testing.T) {
	b := newPinBench(t)
	old := b.sync()
	b.edit(func(s *v1alpha1.Sync) { s.Labels = map[string]string{"changed": "meanwhile"} })
	values, err := b.values(t.Context(), old)
	if err != nil || values["GPU"] != "ami-1" || b.sync().Status.Parameters[0].Value != "ami-1" {
		t.Errorf("%v, %v", values, err)
	}
	// Another process was faster.
	old = b.sync()
	old.Status.Parameters = nil
	b.ssm[gpuParameter] = pin.Reading{Value: "ami-2", Version: 2}
	b.edit(func(s *v1alpha1.Sync) { s.Labels = nil })
	if values, err = b.values(t.Context(), old); err != nil || values["GPU"] != "ami-1" {
		t.Errorf("the pin of the other is lost: %v, %v", values, err)
	}
}

func TestWhoOnlyLooksUsesThePinsAndSaysWhatIsNewer(t *testing.T) {
	b := newPinBench(t)
	if _, err := pinned(b.sync()); err == nil || !strings.Contains(err.Error(), gpuParameter) {
		t.Errorf("before there are any: %v", err)
	}
	if got := parameterNotes(b.sync(), substitute.Values{}); len(got) != 1 || !strings.HasPrefix(got[0].Text, "Warning: ${GPU} is the value of SSM parameter "+gpuParameter+", which is not read here") {
		t.Errorf("a value that nobody knows is noted as %v", got)
	}
	b.expect("first", "ami-1", 1)
	b.looks("${GPU} is ami-1, from SSM parameter " + gpuParameter + " on 2026-11-22")
	b.ssm[gpuParameter] = pin.Reading{Value: "ami-2", Version: 2}
	b.now.SetTime(b.now.Now().Add(time.Hour))
	b.visit()
	b.looks("${GPU} is ami-1, from SSM parameter " + gpuParameter + " on 2026-11-22; the newest is ami-2: poolwright reconcile dev --update-parameters takes it")
}

// looks plans as the live Sync, and as one of a file that was never applied.
func (b *pinBench) looks(want string) {
	b.Helper()
	file := b.sync()
	file.Status = v1alpha1.SyncStatus{}
	as, err := lookedUp(b.Context(), b.live, file, "")
	if err != nil {
		b.Fatal(err)
	}
	for _, sync := range []*v1alpha1.Sync{b.sync(), as} {
		values, err := pinned(sync)
		notes := parameterNotes(sync, substitute.Values{})
		if err != nil || values["GPU"] != "ami-1" || len(notes) != 1 || notes[0].Text != want || notes[0].Key.String() != "Sync.poolwright.dev/poolwright/dev" {
			b.Errorf("%v, %v, %v; want %s", values, notes, err, want)
		}
	}
}

func TestANoteNamesTheValueOfAParameterThatAnotherSourceWinsOver(t *testing.T) {
	ssm := v1alpha1.SubstituteReference{Kind: v1alpha1.SubstituteSSMParameter, Name: gpuParameter, As: "GPU"}
	settings := v1alpha1.SubstituteReference{Kind: v1alpha1.SubstituteConfigMap, Name: "settings"}
	const used = "${GPU} is ami-1, from SSM parameter " + gpuParameter + ", and stays that once the Sync has read it"
	const unused = ": SSM parameter " + gpuParameter + ", of which the Sync has the value ami-1, is not used"
	for name, tt := range map[string]struct {
		substitute map[string]string
		from       []v1alpha1.SubstituteReference
		want       string
	}{
		"nothing wins over it":        {from: []v1alpha1.SubstituteReference{settings, ssm}, want: used},
		"spec.substitute wins":        {map[string]string{"GPU": "ami-hand"}, []v1alpha1.SubstituteReference{settings, ssm}, "${GPU} comes from spec.substitute" + unused},
		"a later ConfigMap wins":      {from: []v1alpha1.SubstituteReference{ssm, settings}, want: "${GPU} comes from ConfigMap settings" + unused},
		"the same value says so, too": {map[string]string{"GPU": "ami-1"}, []v1alpha1.SubstituteReference{ssm}, "${GPU} comes from spec.substitute" + unused},
	} {
		sync := &v1alpha1.Sync{}
		sync.Spec.Substitute, sync.Spec.SubstituteFrom = tt.substitute, tt.from
		sync.Status.Parameters = []v1alpha1.PinnedParameter{{Variable: "GPU", Name: gpuParameter, Value: "ami-1", Version: 1}}
		values, err := valuesOf(t.Context(), sync, withParameters(map[string]string{"GPU": "ami-1"}, func(context.Context, v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
			return substitute.Plain("ConfigMap settings", map[string]string{"GPU": "ami-settings"}), true, nil
		}), ownKey)
		if err != nil {
			t.Fatal(err)
		}
		if notes := parameterNotes(sync, values); len(notes) != 1 || notes[0].Text != tt.want {
			t.Errorf("%s: %v; want %s", name, notes, tt.want)
		}
		// One that nobody has read is no matter where it is not used.
		sync.Status.Parameters = nil
		if notes := parameterNotes(sync, values); (len(notes) == 1) != (tt.want == used) {
			t.Errorf("%s, unread: %v", name, notes)
		}
	}
}

func TestAnEventSaysThatAParameterIsNotUsed(t *testing.T) {
	one := v1alpha1.PinnedParameter{Variable: "GPU", Name: gpuParameter, Value: "ami-2", Latest: "ami-3"}
	sync := &v1alpha1.Sync{}
	for _, set := range []bool{false, true} {
		if set {
			sync.Spec.Substitute = map[string]string{"GPU": "ami-hand"}
		}
		tell := record.NewFakeRecorder(2)
		newPinner(nil, nil, tell).announce(sync, pin.Resolution{Updated: []v1alpha1.PinnedParameter{one}, Outdated: []v1alpha1.PinnedParameter{one}})
		for range 2 {
			if said := <-tell.Events; strings.Contains(said, "nothing uses it: spec.substitute sets ${GPU}") != set || !strings.Contains(said, "ami-2 for ${GPU}") {
				t.Errorf("set %v: %s", set, said)
			}
		}
	}
}
