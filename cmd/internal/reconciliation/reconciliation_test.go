package reconciliation

import (
	"context"
	"errors"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// of is a Sync that has handled a token, with the status of its condition Healthy; none for "".
func of(token string, healthy metav1.ConditionStatus) *v1alpha1.Sync {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "gitops", Name: "dev"}}
	sync.Status.LastHandledReconcileAt = token
	if healthy != "" {
		meta.SetStatusCondition(&sync.Status.Conditions, metav1.Condition{Type: fluxmeta.HealthyCondition, Status: healthy, Reason: "Any"})
	}
	return sync
}

func TestARunIsFollowedUntilItIsHandled(t *testing.T) {
	modified := func(sync *v1alpha1.Sync) watch.Event { return watch.Event{Type: watch.Modified, Object: sync} }
	for name, tt := range map[string]struct {
		events  []watch.Event
		want    *v1alpha1.Sync
		deleted bool
	}{
		"handled":                              {[]watch.Event{modified(of("before", "")), modified(of("now", ""))}, of("now", ""), false},
		"handled, and healthy later":           {[]watch.Event{modified(of("now", metav1.ConditionUnknown)), modified(of("now", metav1.ConditionTrue))}, of("now", metav1.ConditionTrue), false},
		"handled, and not healthy in time":     {[]watch.Event{modified(of("now", metav1.ConditionUnknown))}, of("now", metav1.ConditionUnknown), false},
		"not handled in time":                  {[]watch.Event{modified(of("before", ""))}, nil, false},
		"deleted":                              {[]watch.Event{{Type: watch.Deleted, Object: of("before", "")}}, nil, true},
		"an event that is no object, at first": {[]watch.Event{{Type: watch.Error, Object: &metav1.Status{}}, modified(of("now", ""))}, of("now", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			cl := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
					// The time is over once all events are received.
					w := watch.NewFakeWithChanSize(len(tt.events), false)
					for _, e := range tt.events {
						w.Action(e.Type, e.Object)
					}
					w.Stop()
					cancel()
					return w, nil
				},
			}).Build()
			got, err := UntilHandled(ctx, cl, of("before", ""), "now")
			if errors.Is(err, ErrDeleted) != tt.deleted || (err != nil) != tt.deleted {
				t.Fatal(err)
			}
			if (got == nil) != (tt.want == nil) {
				t.Fatalf("got %v", got)
			}
			if got != nil && meta.IsStatusConditionPresentAndEqual(got.Status.Conditions, fluxmeta.HealthyCondition, metav1.ConditionTrue) != meta.IsStatusConditionTrue(tt.want.Status.Conditions, fluxmeta.HealthyCondition) {
				t.Errorf("conditions %v", got.Status.Conditions)
			}
		})
	}
}
