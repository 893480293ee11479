package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/events/eventstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/events"
)

// The sink is Flux's own, which decodes what it receives as notification-controller does.
func TestTheEventsOfASyncReachTheReceiverOfFlux(t *testing.T) {
	t.Parallel()
	sink := eventstest.NewSink(t)
	s := newSyncFixture(t, "notified")
	s.flags = []string{"--events-addr=" + sink.URL()}
	s.declare("v1", "a")
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	applied := s.sync().Status.LastAppliedRevision
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")
	s.eventually("both events are received", func() error {
		var got []string
		for _, event := range sink.EventsFor("Sync", s.sync().Namespace, s.name) {
			got = append(got, event.Severity+" "+event.Reason+" "+event.Metadata[events.RevisionAnnotation])
		}
		if want := "info ReconciliationSucceeded " + applied + ", info DriftCorrected " + applied; strings.Join(got, ", ") != want {
			return fmt.Errorf("received %v, want %s", got, want)
		}
		return nil
	})
	s.receiverOfFluxStartsARun()
}

// receiverOfFluxStartsARun patches the Sync as notification-controller does for a Receiver, by its ServiceAccount: with the permissions of
// config/flux/receivers that starts a run, and without them it is forbidden.
func (s *syncFixture) receiverOfFluxStartsARun() {
	s.Helper()
	cfg := s.REST()
	cfg.Impersonate.UserName = "system:serviceaccount:flux-system:notification-controller"
	controller, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		s.Fatal(err)
	}
	requested := metav1.Now().String()
	annotate := func() error {
		sync := &metav1.PartialObjectMetadata{}
		sync.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Sync"))
		if err := controller.Get(s.Context(), client.ObjectKey{Namespace: s.system, Name: s.name}, sync); err != nil {
			return err
		}
		before := sync.DeepCopy()
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, fluxmeta.ReconcileRequestAnnotation, requested)
		return controller.Patch(s.Context(), sync, client.MergeFrom(before))
	}
	if err := annotate(); !apierrors.IsForbidden(err) {
		s.Errorf("without the component: %v", err)
	}
	role, err := os.ReadFile("../../../config/flux/receivers/role.yaml")
	if err != nil {
		s.Fatal(err)
	}
	for _, object := range documents(s.T, bytes.ReplaceAll(role, []byte(engineSystem), []byte(s.system))) {
		if err := s.hand.Create(s.Context(), object); err != nil {
			s.Fatal(err)
		}
	}
	// The API server's authorizer learns of a role by a watch.
	s.eventually("notification-controller may patch the Sync", annotate)
	s.eventually("the request is handled", func() error {
		if got := s.sync().Status.LastHandledReconcileAt; got != requested {
			return fmt.Errorf("the last one handled is %q", got)
		}
		return nil
	})
}
