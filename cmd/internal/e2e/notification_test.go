package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/events/eventstest"

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
}
