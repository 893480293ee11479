package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// declareSync writes into the repository what the stage's Sync is, changed by edit.
func (s *syncFixture) declareSync(name string, edit func(*v1alpha1.Sync)) {
	s.Helper()
	sync := s.spelled(name, every("10m"))
	edit(sync)
	sync.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Sync"}
	text, err := yaml.Marshal(sync)
	if err != nil {
		s.Fatal(err)
	}
	s.repo.write("config/sync-"+name+".yaml", string(text))
}

// TestACommitCannotSwitchOffTheGuardThatItNeeds follows a repository that declares its
// own Sync, and attacks the guard from there.
func TestACommitCannotSwitchOffTheGuardThatItNeeds(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "relax")
	staying, leaving := names("staying", 4), names("leaving", 11)
	all := append(leaving, staying...)
	asItIs := func(*v1alpha1.Sync) {}
	anything := func(sync *v1alpha1.Sync) { sync.Spec.Guard.MaxPrunePercent = new(int32(100)) }
	begin := func(s *syncFixture) {
		s.declare("v1", all...)
		s.declareSync(s.name, asItIs)
		s.repo.commit("As it was")
		s.handled()
		s.ready()
	}
	s.declare("v1", all...)
	s.declareSync(s.name, asItIs)
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	before := len(s.census())
	// unchanged fails where anything was deleted or the live guard is another.
	unchanged := func(s *syncFixture) {
		s.Helper()
		if n := len(s.census()); n != before {
			s.Errorf("%d of %d objects are left", n, before)
		}
		if got := s.sync().Spec; *got.Guard.MaxPrunePercent != 50 || got.DeletionPolicy != v1alpha1.DeletionPolicyOrphan || got.Path != "config" {
			s.Errorf("the live Sync has other settings: %+v", got)
		}
	}
	remove := func(s *syncFixture) {
		for _, name := range leaving {
			s.repo.remove("config/" + name + ".yaml")
		}
	}
	part := func(name string, attack func(s *syncFixture)) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // One Sync, one attack after the other.
			s := s.in(t)
			attack(s)
			begin(s)
			unchanged(s)
		})
	}
	part("a commit that raises the guard and removes", func(s *syncFixture) {
		remove(s)
		s.declareSync(s.name, anything)
		s.repo.commit("Raise the guard and remove eleven")
		for range 3 {
			s.handled()
		}
		if message := s.waitForNotReady("SyncChangeHeld"); !strings.Contains(message, "spec.guard.maxPrunePercent") || !strings.Contains(message, "would delete 11 of") {
			s.Errorf("the message is %s", message)
		}
		unchanged(s)
		s.repo.write("config/later.yaml", s.configMap("staying00", "v1"))
		s.repo.remove("config/staying00.yaml")
		s.repo.commit("Another commit on top")
		s.handled()
		s.handled()
		unchanged(s)
		s.repo.remove("config/later.yaml")
	})
	part("a commit that raises the guard, and one that removes right behind it", func(s *syncFixture) {
		s.declareSync(s.name, anything)
		s.repo.commit("Raise the guard")
		remove(s)
		s.repo.commit("Remove eleven")
		s.handled()
		s.handled()
		unchanged(s)
	})
	part("a commit that raises the guard and has a problem, mended by the next", func(s *syncFixture) {
		remove(s)
		s.declareSync(s.name, anything)
		s.repo.write("config/problem.yaml", "kind: 7\n")
		s.repo.commit("Raise the guard, remove eleven, and mistype")
		s.handled()
		s.repo.remove("config/problem.yaml")
		s.repo.commit("Mend it")
		s.handled()
		s.handled()
		unchanged(s)
	})
	part("a commit that moves the Sync to an emptier folder and raises the guard", func(s *syncFixture) {
		s.repo.write("elsewhere/staying00.yaml", s.configMap("staying00", "v1"))
		s.declareSync(s.name, func(sync *v1alpha1.Sync) { anything(sync); sync.Spec.Path = "elsewhere" })
		s.repo.commit("Move and raise")
		s.handled()
		s.handled()
		unchanged(s)
	})
	part("a second Sync on the same folder without a guard", func(s *syncFixture) {
		remove(s)
		s.declareSync("second", anything)
		s.repo.commit("Remove eleven, and follow the folder once more")
		s.handled()
		s.waitForNotReady("PruneHeld")
		s.eventually("the second Sync has tried", func() error {
			second, err := s.read("second")
			if err == nil && second.Status.LastAttemptedRevision != s.repo.revision() {
				err = errors.New("it has not")
			}
			return err
		})
		s.handledAs("second")
		s.handled()
		unchanged(s)
		s.repo.remove("config/sync-second.yaml")
		s.repo.commit("Give the second up")
		s.handled()
		if err := hand.Delete(s.Context(), &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: s.system}}); err != nil {
			s.Fatal(err)
		}
		s.eventually("the second Sync is gone", func() error {
			_, err := s.read("second")
			if client.IgnoreNotFound(err) == nil && err != nil {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	})
	part("a commit that removes the Sync itself, after one that lets it take all along", func(s *syncFixture) {
		s.declareSync(s.name, func(sync *v1alpha1.Sync) { sync.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
		s.repo.commit("Take all along")
		s.repo.remove("config/sync-" + s.name + ".yaml")
		s.repo.commit("Remove the Sync")
		s.handled()
		s.waitForNotReady("PruneHeld")
		s.handled()
		if s.sync().DeletionTimestamp != nil {
			s.Error("the Sync is deleted")
		}
		unchanged(s)
	})
	part("a commit that brings the confirmation along", func(s *syncFixture) {
		remove(s)
		s.repo.commit("Remove eleven")
		s.handled()
		token := s.tokenIn(s.waitForNotReady("PruneHeld"))
		s.declareSync(s.name, func(sync *v1alpha1.Sync) {
			sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: token}
		})
		s.repo.commit("Confirm it")
		s.handled()
		if message := s.waitForNotReady("InvalidManifests"); !strings.Contains(message, "sync-"+s.name+".yaml:") {
			s.Errorf("the message names no place: %s", message)
		}
		s.handled()
		unchanged(s)
		if s.sync().Annotations[v1alpha1.ConfirmAnnotation] != "" {
			s.Error("the live Sync has a confirmation that nobody gave")
		}
	})
	part("an inventory of another Sync", func(s *syncFixture) {
		s.repo.write("config/inventory.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other-inventory-0, namespace: %s}\n", s.system))
		s.repo.commit("Write an inventory")
		s.handled()
		s.waitForNotReady("InvalidManifests")
		s.repo.remove("config/inventory.yaml")
	})
	// What a person confirms, is done: first the guard, then what it lets pass.
	remove(s)
	s.declareSync(s.name, anything)
	s.repo.commit("Raise the guard and remove eleven")
	s.handled()
	s.confirm(s.tokenIn(s.waitForNotReady("SyncChangeHeld")))
	s.ready()
	if n := len(s.census()); n != before-len(leaving) {
		t.Errorf("%d objects are left, want %d", n, before-len(leaving))
	}
	if got := *s.sync().Spec.Guard.MaxPrunePercent; got != 100 {
		t.Errorf("the guard is %d", got)
	}
}
