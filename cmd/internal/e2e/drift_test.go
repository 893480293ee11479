package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestDriftIsPutBackAndNothingElseIsWritten(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "drift")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	metrics := s.servesMetrics()
	c := s.start()
	// No interval may help: what is put back here is put back by watch.
	s.follow(every("10m"))
	s.ready()
	s.handled()
	c.api.take()

	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")
	s.uproot("b")
	s.holds("b", "v1")
	s.edit("c", fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v1alpha1.SyncLabel))
	s.labelled("c")
	s.edit("d", fmt.Sprintf(`{"metadata":{"labels":{%q:"somebody"}}}`, v1alpha1.SyncLabel))
	s.labelled("d")
	if texts := s.waitForEvent("DriftCorrected"); !strings.Contains(texts, "ConfigMap/"+s.apps) {
		t.Errorf("the event does not name the object: %s", texts)
	}
	// What is nobody's business stays.
	s.edit("e", `{"data":{"more":"by hand"},"metadata":{"annotations":{"note":"mine"}}}`)
	s.handled()
	if e := s.live("e"); e.Data["more"] != "by hand" || e.Annotations["note"] != "mine" {
		t.Errorf("fields that Git does not declare were taken away: %v %v", e.Data, e.Annotations)
	}
	writes := beyond(c.api.take(), routine(s.name))
	for _, name := range []string{"a", "b", "c", "d"} {
		n := len(writes)
		writes = beyond(writes, func(w string) bool { return w == "PATCH /api/v1/namespaces/"+s.apps+"/configmaps/"+name })
		if n-len(writes) != 1 {
			t.Errorf("%d writes put %s back", n-len(writes), name)
		}
	}
	// The inventory takes note of the incarnation that was made anew.
	writes = beyond(writes, func(w string) bool { return strings.HasPrefix(w, "PUT ") && strings.Contains(w, "-inventory-") })
	if len(writes) > 0 {
		t.Errorf("further writes: %v", writes)
	}
	s.handled()
	if writes := beyond(c.api.take(), routine(s.name)); len(writes) > 0 {
		t.Errorf("a settled Sync writes: %v", writes)
	}
	// Another manager of the same fields: of a, c and d it is the second and third time, of e the first three. After that they
	// are left alone for a minute.
	for _, name := range []string{"a", "c", "d", "e", "a", "c", "d", "e", "e"} {
		s.edit(name, `{"data":{"value":"by a rival"}}`)
		s.holds(name, "v1")
	}
	s.awaitSeries(s.eventually, metrics, "PoolwrightDriftRecurring")
}

// every sets the interval.
func every(interval string) func(*v1alpha1.Sync) {
	return func(sync *v1alpha1.Sync) {
		if err := sync.Spec.Interval.UnmarshalJSON([]byte(`"` + interval + `"`)); err != nil {
			panic(err)
		}
	}
}

// labelled waits until an object carries the Sync's label.
func (s *syncFixture) labelled(name string) {
	s.Helper()
	s.eventually(name+" is labelled again", func() error {
		if got := s.live(name).Labels[v1alpha1.SyncLabel]; got != s.name {
			return fmt.Errorf("the label is %q", got)
		}
		return nil
	})
}

func TestDriftThatIsOnlyReportedStaysAndCommitsGoOn(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "report")
	s.declare("v1", "a", "b", "c")
	s.repo.commit("Begin")
	address := s.servesMetrics()
	s.start()
	s.follow(func(sync *v1alpha1.Sync) { sync.Spec.Drift = v1alpha1.DriftReport })
	s.ready()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.uproot("b")
	s.drifted("a", "update")
	s.drifted("b", "create")
	s.awaitSeries(s.eventually, address, "PoolwrightDriftNotCorrected")
	if got := s.sync().Status.Pending[0].Source; got != "config/a.yaml:1" {
		t.Errorf("the pending change is declared at %q", got)
	}
	s.repo.write("config/c.yaml", s.configMap("c", "v2"))
	s.repo.commit("Change c")
	s.holds("c", "v2")
	s.ready()
	s.drifted("a", "update")
	if a := s.live("a").Data["value"]; a != "by hand" || s.live("b") != nil {
		t.Errorf("drift was corrected: a holds %q", a)
	}
	// What a commit says is no drift, also where the object was edited.
	s.repo.write("config/a.yaml", s.configMap("a", "v3"))
	s.repo.commit("Change a")
	s.holds("a", "v3")
	s.ready()
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Drift = v1alpha1.DriftCorrect })
	s.holds("b", "v1")
	s.ready()
	s.eventually("nothing is reported as drifted", func() error {
		status := s.sync().Status
		if meta.IsStatusConditionTrue(status.Conditions, "Drifted") || len(status.Pending) > 0 {
			return fmt.Errorf("pending: %v", status.Pending)
		}
		return nil
	})
}

// drifted waits until the status names an object's drift.
func (s *syncFixture) drifted(name, action string) {
	s.Helper()
	s.eventually(name+" is reported", func() error {
		status := s.sync().Status
		if !meta.IsStatusConditionTrue(status.Conditions, "Drifted") {
			return errors.New("Drifted is not True")
		}
		for _, p := range status.Pending {
			if p.Object == "ConfigMap/"+s.apps+"/"+name && p.Action == action && strings.Contains(p.Reason, "only reported") {
				return nil
			}
		}
		return fmt.Errorf("pending is %+v", status.Pending)
	})
}

// observed waits until the newest spec has been observed.
func (s *syncFixture) observed() {
	s.Helper()
	s.eventually("the newest spec is observed", func() error {
		sync := s.sync()
		if sync.Status.ObservedGeneration != sync.Generation {
			return fmt.Errorf("generation %d of %d is", sync.Status.ObservedGeneration, sync.Generation)
		}
		return nil
	})
}

func TestASuspendedSyncRestsAndTakesUpAgain(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "suspend")
	s.declare("v1", "a", "b")
	first := s.repo.commit("Begin")
	c := s.start()
	s.follow()
	s.ready()
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	s.observed()
	c.api.take()
	requested := s.git.requests()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.uproot("b")
	s.repo.write("config/c.yaml", s.configMap("c", "v1"))
	s.repo.commit("Add c")
	// Handled, but not followed: nothing may have happened by then.
	sync := s.handled()
	if sync.Status.LastAppliedRevision != first || s.live("a").Data["value"] != "by hand" || s.live("b") != nil || s.live("c") != nil {
		t.Errorf("a suspended Sync does something: %v", s.census())
	}
	if writes := beyond(c.api.take(), routine(s.name)); len(writes) > 0 || s.git.requests() != requested {
		t.Errorf("a suspended Sync writes %v and asks Git %d times", writes, s.git.requests()-requested)
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = false })
	s.holds("a", "v1")
	s.holds("b", "v1")
	s.holds("c", "v1")
	s.ready()
}

func TestARequestToReconcileNowIsServedNow(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "now")
	s.declare("v1", "a")
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.commit("Change a")
	sync := s.handled()
	if err := isReady(sync, s.repo.revision()); err != nil {
		t.Errorf("the request was handled and not fulfilled: %v", err)
	}
	if got := s.live("a").Data["value"]; got != "v2" {
		t.Errorf("a holds %q", got)
	}
}
