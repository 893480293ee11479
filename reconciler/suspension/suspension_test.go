package suspension_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

const (
	why   = v1alpha1.SuspendReasonAnnotation
	until = v1alpha1.SuspendUntilAnnotation
)

func of(suspended bool, annotations map[string]string) *v1alpha1.Sync {
	sync := &v1alpha1.Sync{}
	sync.Namespace, sync.Name, sync.Annotations, sync.Spec.Suspend = "poolwright-system", "dev", annotations, suspended
	return sync
}

func TestASuspensionHasTheReasonAndTheEndOfThisTime(t *testing.T) {
	for name, test := range map[string]struct {
		before map[string]string
		reason string
		end    time.Time
		want   map[string]string
	}{
		"for a reason, until a time":           {map[string]string{"team": "gpu"}, "EKS is upgraded", noon, map[string]string{"team": "gpu", why: "EKS is upgraded", until: "2026-11-28T12:00:00Z"}},
		"a time of another zone, and a moment": {nil, "", noon.Add(time.Millisecond).In(time.FixedZone("CET", 3600)), map[string]string{until: "2026-11-28T12:00:00Z"}},
		"again, without either":                {map[string]string{why: "EKS is upgraded", until: "2026-11-28T12:00:00Z"}, "", time.Time{}, map[string]string{}},
		"without either":                       {nil, "", time.Time{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sync := of(false, test.before)
			suspension.Start(sync, test.reason, test.end)
			if diff := cmp.Diff(test.want, sync.Annotations); diff != "" || !sync.Spec.Suspend {
				t.Errorf("suspended %t (-want +got):\n%s", sync.Spec.Suspend, diff)
			}
			suspension.End(sync)
			if sync.Spec.Suspend || sync.Annotations[why] != "" || sync.Annotations[until] != "" || sync.Annotations["team"] != test.want["team"] {
				t.Errorf("ended, it has %t, %v", sync.Spec.Suspend, sync.Annotations)
			}
		})
	}
}

func TestASuspensionEndsAtItsTimeOrNotByItself(t *testing.T) {
	for name, test := range map[string]struct {
		suspended bool
		until     string
		now       time.Time
		over      bool
		remaining time.Duration
	}{
		"a second before":              {true, "2026-11-28T12:00:00Z", noon.Add(-time.Second), false, time.Second},
		"a moment before":              {true, "2026-11-28T12:00:00Z", noon.Add(-time.Microsecond), false, time.Millisecond},
		"at its time":                  {true, "2026-11-28T12:00:00Z", noon, true, time.Millisecond},
		"an hour later":                {true, "2026-11-28T13:00:00+01:00", noon.Add(time.Hour), true, time.Millisecond},
		"without an end":               {true, "", noon, false, 0},
		"with one that is no time":     {true, "2h", noon, false, 0},
		"with a time without a zone":   {true, "2026-11-28T11:00:00", noon, false, 0},
		"a Sync that is not suspended": {false, "2026-11-28T11:00:00Z", noon, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sync := of(test.suspended, map[string]string{until: test.until})
			if over, remaining := suspension.Over(sync, test.now), suspension.Remaining(sync, test.now); over != test.over || remaining != test.remaining {
				t.Errorf("over %t, remaining %s", over, remaining)
			}
		})
	}
}

func TestTheDetailsOfASuspensionAreUntilWhenAndWhy(t *testing.T) {
	for name, test := range map[string]struct {
		suspended   bool
		annotations map[string]string
		want        string
	}{
		"neither":           {true, nil, ""},
		"a reason":          {true, map[string]string{why: "EKS is\x1b[2J upgraded"}, `: EKS is\x1b[2J upgraded`},
		"an end":            {true, map[string]string{until: "2026-11-28T13:00:00+01:00"}, " until 2026-11-28T12:00:00Z"},
		"both":              {true, map[string]string{why: "EKS is upgraded", until: "2026-11-28T12:00:00Z"}, " until 2026-11-28T12:00:00Z: EKS is upgraded"},
		"one not suspended": {false, map[string]string{why: "EKS is upgraded", until: "2026-11-28T12:00:00Z"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, suspension.Details(of(test.suspended, test.annotations))); diff != "" {
				t.Error(diff)
			}
		})
	}
	got := suspension.Details(of(true, map[string]string{until: "tomorrow\x07"}))
	if !strings.Contains(got, until) || !strings.Contains(got, `tomorrow\a`) || strings.Contains(got, "\x07") {
		t.Errorf("an end that is no time: %q", got)
	}
}

// api is an API server with the Sync, and live reads it. It refuses updates: they would remove fields that only a later release has.
func api(t *testing.T, sync *v1alpha1.Sync) (kube client.Client, live func() *v1alpha1.Sync) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("the whole object is written")
		},
	}).Build()
	return kube, func() *v1alpha1.Sync {
		t.Helper()
		var sync v1alpha1.Sync
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "poolwright-system", Name: "dev"}, &sync); err != nil {
			t.Fatal(err)
		}
		return &sync
	}
}

func TestASuspensionIsReplacedByAnEarlierEndOrAnotherReasonOnlyWhereThatIsExplicit(t *testing.T) {
	for name, test := range map[string]struct {
		suspended bool
		before    map[string]string
		reason    string
		end       time.Time
		refused   bool
	}{
		"one without an end, until a time":         {true, nil, "", noon, true},
		"one until a later time":                   {true, map[string]string{until: "2026-11-28T12:00:01Z"}, "", noon, true},
		"one until what is no time":                {true, map[string]string{until: "2h"}, "", noon, true},
		"one with a reason, for none":              {true, map[string]string{until: "2026-11-28T11:00:00Z", why: "EKS is upgraded"}, "", noon, true},
		"one with a reason, for another":           {true, map[string]string{why: "EKS is upgraded"}, "the audit", time.Time{}, true},
		"one until an earlier time":                {true, map[string]string{until: "2026-11-28T11:00:00Z", why: "EKS is upgraded"}, "EKS is upgraded", noon, false},
		"one until a time, without an end":         {true, map[string]string{until: "2026-11-28T11:00:00Z"}, "the audit", time.Time{}, false},
		"the same without an end":                  {true, nil, "", time.Time{}, false},
		"a Sync with what an earlier one had left": {false, map[string]string{until: "2026-11-28T13:00:00Z", why: "EKS is upgraded"}, "", noon, false},
	} {
		t.Run(name, func(t *testing.T) {
			kube, live := api(t, of(test.suspended, test.before))
			before := live()
			err := suspension.Suspend(t.Context(), kube, live(), test.reason, test.end, false)
			if errors.Is(err, suspension.ErrSuspended) != test.refused || (err != nil) != test.refused {
				t.Fatalf("it is %v", err)
			}
			if test.refused {
				if diff := cmp.Diff(before, live()); diff != "" || !strings.HasSuffix(err.Error(), suspension.Details(before)) || strings.Contains(err.Error(), "--") {
					t.Errorf("refused with %v (-want +got):\n%s", err, diff)
				}
				if err := suspension.Suspend(t.Context(), kube, live(), test.reason, test.end, true); err != nil {
					t.Fatal(err)
				}
			}
			if got := live(); !got.Spec.Suspend || !suspension.Until(got).Equal(test.end) || suspension.Reason(got) != test.reason {
				t.Errorf("it is suspended %t, with %v", got.Spec.Suspend, got.Annotations)
			}
		})
	}
}

// The controller ends a suspension while a person extends it: the Sync is suspended then, as the command reports.
func TestASuspensionThatIsExtendedAtItsEndLasts(t *testing.T) {
	kube, live := api(t, of(true, map[string]string{until: "2026-11-28T12:00:00Z"}))
	read := live()
	if err := suspension.Resume(t.Context(), kube, record.NewFakeRecorder(1), live()); err != nil {
		t.Fatal(err)
	}
	if err := suspension.Suspend(t.Context(), kube, read, "", noon.Add(time.Hour), false); err != nil {
		t.Fatal(err)
	}
	if got := live(); !got.Spec.Suspend || !suspension.Until(got).Equal(noon.Add(time.Hour)) || !read.Spec.Suspend {
		t.Errorf("it is suspended %t, with %v", got.Spec.Suspend, got.Annotations)
	}
	// Somebody else has suspended it for longer: also that is read before it is replaced.
	stale := live()
	if err := suspension.Suspend(t.Context(), kube, live(), "the audit", noon.Add(2*time.Hour), false); err != nil {
		t.Fatal(err)
	}
	if err := suspension.Suspend(t.Context(), kube, stale, "", noon.Add(90*time.Minute), false); !errors.Is(err, suspension.ErrSuspended) {
		t.Errorf("it is %v", err)
	}
}

func TestTheEndOfASuspensionIsRefusedWhereTheSyncHasChanged(t *testing.T) {
	kube, live := api(t, of(true, map[string]string{until: "2026-11-28T12:00:00Z", why: "EKS is upgraded"}))
	events := record.NewFakeRecorder(1)
	stale, longer := live(), live()
	if err := suspension.Suspend(t.Context(), kube, longer, "EKS takes longer", noon.Add(time.Hour), true); err != nil {
		t.Fatal(err)
	}
	if err := suspension.Resume(t.Context(), kube, events, stale); !apierrors.IsConflict(err) {
		t.Errorf("it is %v", err)
	}
	if got := live(); !suspension.Until(got).Equal(noon.Add(time.Hour)) || len(events.Events) > 0 {
		t.Errorf("the longer suspension is %t, %v, with %d events", got.Spec.Suspend, got.Annotations, len(events.Events))
	}
	if err := suspension.Resume(t.Context(), kube, events, live()); err != nil {
		t.Fatal(err)
	}
	if got := live(); got.Spec.Suspend || len(got.Annotations) > 0 {
		t.Errorf("resumed, it has %t, %v", got.Spec.Suspend, got.Annotations)
	}
	if diff := cmp.Diff("Normal Resumed The Sync was suspended until 2026-11-28T13:00:00Z: EKS takes longer", <-events.Events); diff != "" {
		t.Error(diff)
	}
}

func TestASyncThatIsBeingDeletedIsNotToBeResumed(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
	if got := suspension.Message(sync); !strings.Contains(got, "poolwright resume dev") {
		t.Error(got)
	}
	now := metav1.Now()
	sync.DeletionTimestamp = &now
	if got := suspension.Message(sync); strings.Contains(got, "resume") || !strings.Contains(got, "being deleted") {
		t.Error(got)
	}
}
