package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// holder is who holds the lease.
func (s *syncFixture) holder() string {
	s.Helper()
	var leases coordinationv1.LeaseList
	if err := s.hand.List(s.Context(), &leases, client.InNamespace(s.system)); err != nil {
		s.Fatal(err)
	}
	for _, l := range leases.Items {
		if l.Spec.HolderIdentity != nil {
			return *l.Spec.HolderIdentity
		}
	}
	return ""
}

// standby starts a second replica and waits until it asks for the lease.
func (s *syncFixture) standby() *controller {
	s.Helper()
	c := s.start()
	s.eventually("the second replica waits for the lease", func() error {
		content, err := os.ReadFile(c.Log())
		if err == nil && !strings.Contains(string(content), "Attempting to acquire leader lease") {
			err = fmt.Errorf("it does not yet")
		}
		return err
	})
	return c
}

// tookOver waits until somebody else leads than before.
func (s *syncFixture) tookOver(from string) {
	s.Helper()
	s.eventually("another replica leads", func() error {
		if now := s.holder(); now == from || now == "" {
			return fmt.Errorf("the lease is held by %q", now)
		}
		return nil
	})
}

func TestOfTwoReplicasOneActsAndTheOtherTakesOver(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "replicas")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	first := s.start()
	s.follow()
	s.ready()
	leader := s.holder()
	address := s.servesMetrics()
	second := s.standby()
	s.flags = s.flags[:len(s.flags)-1] // a third replica cannot serve them at the same address
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")
	s.repo.write("config/b.yaml", s.configMap("b", "v2"))
	s.repo.commit("Change b")
	s.ready()
	if writes := second.api.take(); len(writes) > 0 {
		t.Errorf("the replica that does not lead writes: %v", writes)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	// The standby is all that is left to scrape, and does not lead until the lease has expired.
	s.awaitSeries(s.eventually, address, "PoolwrightNoLeader")
	s.edit("c", `{"data":{"value":"by hand"}}`)
	s.uproot("d")
	s.tookOver(leader)
	s.eventually("the series of PoolwrightNoLeader ends", func() error {
		return s.serves(address, `leader_election_master_status{name="poolwright"}`, "1")
	})
	s.holds("c", "v1")
	s.holds("d", "v1")
	s.repo.write("config/e.yaml", s.configMap("e", "v2"))
	s.repo.commit("Change e")
	s.ready()
	// Who is asked to stop lets go of the lease: nobody waits until it expires.
	leader = s.holder()
	s.standby()
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.holder() == leader {
		t.Errorf("%s has ended and still holds the lease", leader)
	}
	s.tookOver(leader)
	s.uproot("a")
	s.holds("a", "v1")
}

func TestALeaderThatWokeUpTooLateWritesNothing(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "frozen")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	first := s.start()
	s.follow()
	s.ready()
	leader := s.holder()
	second := s.standby()
	if err := syscall.Kill(first.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Its watches tell the frozen one of these when it wakes up.
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.uproot("b")
	s.tookOver(leader)
	s.holds("a", "v1")
	s.holds("b", "v1")
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.write("config/c.yaml", s.configMap("c", "v2"))
	s.repo.commit("Change a and c")
	s.ready()
	s.handled()
	first.api.take()
	second.api.take()
	if err := syscall.Kill(first.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.eventually("the first replica waits for the lease again", func() error {
		content, err := os.ReadFile(first.Log())
		if err == nil && strings.Count(string(content), "Attempting to acquire leader lease") < 2 {
			err = fmt.Errorf("it does not yet")
		}
		return err
	})
	if writes := first.api.take(); len(writes) > 0 {
		t.Errorf("a leader that lost its lease while it was frozen writes: %v", writes)
	}
	s.holds("a", "v2")
	s.handled()
	if writes := beyond(second.api.take(), routine(s.name)); len(writes) > 0 {
		t.Errorf("the new leader had to mend something: %v", writes)
	}
}

func TestASyncThatNoControllerReconcilesIsReported(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "foreign")
	s.declare("v1", "a")
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	foreign := s.sync()
	foreign.ObjectMeta = metav1.ObjectMeta{Name: s.name, Namespace: "default"}
	foreign.Status = v1alpha1.SyncStatus{}
	if err := hand.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	s.eventually("the foreign Sync is refused", func() error {
		if err := hand.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
			return err
		}
		stalled := meta.FindStatusCondition(foreign.Status.Conditions, "Stalled")
		if stalled == nil || stalled.Reason != "ForeignNamespace" {
			return fmt.Errorf("its conditions are %v", foreign.Status.Conditions)
		}
		return nil
	})
	if len(foreign.Finalizers) > 0 {
		t.Errorf("it cannot be deleted: %v", foreign.Finalizers)
	}
	if err := isReady(s.handled(), s.repo.revision()); err != nil {
		t.Error(err)
	}
}
