package predicates

import (
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestASyncIsReconciledForTheAnnotationsThatRequestIt(t *testing.T) {
	sync := func(annotations map[string]string) *v1alpha1.Sync {
		return &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	for _, test := range []struct {
		name          string
		before, after map[string]string
		want          bool
	}{
		{"a run is requested", nil, map[string]string{fluxmeta.ReconcileRequestAnnotation: "1"}, true},
		{"another run is requested", map[string]string{fluxmeta.ReconcileRequestAnnotation: "1"}, map[string]string{fluxmeta.ReconcileRequestAnnotation: "2"}, true},
		{"a request is taken back", map[string]string{fluxmeta.ReconcileRequestAnnotation: "1"}, nil, false},
		{"a token is quoted", nil, map[string]string{v1alpha1.ConfirmAnnotation: "deletions-1-abc"}, true},
		{"a token is taken back", map[string]string{v1alpha1.ConfirmAnnotation: "deletions-1-abc"}, nil, true},
		{"the newest parameters are requested", nil, map[string]string{v1alpha1.UpdateParametersAnnotation: "1"}, true},
		{"it is rolled back", nil, map[string]string{v1alpha1.RollbackAnnotation: "a"}, true},
		{"it follows its branch again", map[string]string{v1alpha1.RollbackAnnotation: "a"}, nil, true},
		{"another reason of that is named", map[string]string{v1alpha1.RollbackReasonAnnotation: "a"}, map[string]string{v1alpha1.RollbackReasonAnnotation: "b"}, true},
		{"it is suspended until a time", nil, map[string]string{v1alpha1.SuspendUntilAnnotation: "2026-11-28T18:00:00Z"}, true},
		{"another reason of that", map[string]string{v1alpha1.SuspendReasonAnnotation: "a"}, map[string]string{v1alpha1.SuspendReasonAnnotation: "b"}, true},
		{"it is suspended for longer", map[string]string{v1alpha1.SuspendUntilAnnotation: "2026-11-28T18:00:00Z"}, map[string]string{v1alpha1.SuspendUntilAnnotation: "2026-11-28T20:00:00Z"}, true},
		{"a webhook of a pull request arrived", nil, map[string]string{v1alpha1.WebhookAnnotation: "1"}, false},
		{"kubectl keeps what it applied", nil, map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}, false},
		{"nothing changed", map[string]string{fluxmeta.ReconcileRequestAnnotation: "1"}, map[string]string{fluxmeta.ReconcileRequestAnnotation: "1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := RunRequested().Update(event.UpdateEvent{ObjectOld: sync(test.before), ObjectNew: sync(test.after)})
			if got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
	if RunRequested().Update(event.UpdateEvent{ObjectNew: sync(map[string]string{fluxmeta.ReconcileRequestAnnotation: "1"})}) {
		t.Error("an update without the object before requests a run")
	}
}
