package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

var confirmation = regexp.MustCompile(`poolwright\.dev/confirm=([0-9A-Za-z+,.-]+)$`)

// confirm puts the annotation on the Sync.
func (s *syncFixture) confirm(token string) {
	s.Helper()
	s.change(func(sync *v1alpha1.Sync) {
		if sync.Annotations == nil {
			sync.Annotations = map[string]string{}
		}
		sync.Annotations[v1alpha1.ConfirmAnnotation] = token
	})
}

// tokenIn is the confirmation token that a message ends with.
func (s *syncFixture) tokenIn(message string) string {
	s.Helper()
	found := confirmation.FindStringSubmatch(message)
	if found == nil {
		s.Fatalf("no confirmation token in: %s", message)
	}
	return found[1]
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%02d", prefix, i)
	}
	return out
}

func TestALargePruneWaitsForAPerson(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "guard")
	staying, leaving := names("staying", 4), names("leaving", 11)
	s.declare("v1", append(leaving, staying...)...)
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	before := len(s.census())
	for _, name := range leaving {
		s.repo.remove("config/" + name + ".yaml")
	}
	s.repo.write("config/staying00.yaml", s.configMap("staying00", "v2"))
	s.repo.commit("Remove eleven of sixteen objects, change another")
	s.handled()
	message := s.waitForNotReady("PruneHeld")
	if !strings.Contains(message, "would delete 11 of 16 objects, more than 50%") {
		t.Errorf("the message does not say what it would delete: %s", message)
	}
	s.holds("staying00", "v2")
	s.confirm("0123456789ab")
	s.handled()
	if n := len(s.census()); n != before {
		t.Fatalf("%d of %d objects are left after a wrong confirmation", n, before)
	}
	if pending := s.sync().Status.Pending; len(pending) != 11 || pending[0].Action != "delete" {
		t.Errorf("pending is %+v", pending)
	}
	s.confirm(s.tokenIn(message))
	s.ready()
	if n := len(s.census()); n != len(staying) {
		t.Errorf("%d objects are left, want %d", n, len(staying))
	}
	// An old confirmation confirms nothing new.
	s.declare("v1", leaving...)
	s.repo.commit("Bring them back")
	s.handled()
	s.ready()
	for _, name := range leaving {
		s.repo.remove("config/" + name + ".yaml")
	}
	s.repo.commit("Remove them again")
	s.handled()
	if again := s.waitForNotReady("PruneHeld"); s.tokenIn(again) == s.tokenIn(message) {
		t.Error("the same hash stands for other objects")
	}
	// Git itself may take the wish back.
	s.declare("v1", leaving...)
	s.repo.commit("Bring them back again")
	s.handled()
	s.ready()
}

func TestWhatIsMarkedOrNotPrunedStays(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "keep")
	s.declare("v1", "a", "b", "c", "marked")
	s.repo.write("config/marked.yaml", strings.Replace(s.configMap("marked", "v1"), "{name", `{annotations: {poolwright.dev/prune: disabled}, name`, 1))
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	s.repo.remove("config/marked.yaml", "config/a.yaml")
	s.repo.commit("Remove a and the marked one")
	s.handled()
	s.ready()
	if s.live("a") != nil || s.live("marked") == nil {
		t.Errorf("left are %v", s.census())
	}
	never := false
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Prune = &never })
	s.repo.remove("config/b.yaml")
	s.repo.commit("Remove b")
	s.handled()
	s.ready()
	if s.live("b") == nil {
		t.Error("b was pruned although prune is off")
	}
}

// released waits until the Sync is gone, and checks that nothing of its memory
// is left.
func (s *syncFixture) released() {
	s.Helper()
	s.eventually("the Sync is gone", func() error {
		_, err := s.read(s.name)
		return absent(err)
	})
	var left corev1.ConfigMapList
	if err := s.hand.List(s.Context(), &left, client.InNamespace(s.system), client.HasLabels{"poolwright.dev/inventory"}); err != nil || len(left.Items) > 0 {
		s.Errorf("%d ConfigMaps of the inventory are left, %v", len(left.Items), err)
	}
}

func (s *syncFixture) deleteSync() {
	s.Helper()
	if err := s.hand.Delete(s.Context(), s.sync()); err != nil {
		s.Fatal(err)
	}
}

func TestADeletedSyncLeavesItsObjects(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "orphan")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	before := s.census()
	s.deleteSync()
	s.released()
	if len(s.census()) != len(before) {
		t.Errorf("%v is left of %v", s.census(), before)
	}
	// Another Sync of the same name takes them up where they are.
	s.follow()
	s.ready()
	for name, uid := range s.census() {
		if before[name] != uid {
			t.Errorf("%s was made anew", name)
		}
	}
}

func TestADeletedSyncPrunesWhereItsDeletionPolicyIsDelete(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "release")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	s.start()
	s.follow(func(sync *v1alpha1.Sync) { sync.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	s.ready()
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: s.apps}}
	if err := hand.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	s.deleteSync()
	// What would die with the namespace is not ours: that waits for a confirmation.
	message := s.waitForEvent("PruneHeld")
	if !strings.Contains(message, "1 configmap in it go with it") {
		t.Errorf("the event does not say what would be lost: %s", message)
	}
	s.gone("a")
	s.gone("b")
	if s.live("foreign") == nil {
		t.Fatal("a foreign object was deleted")
	}
	s.eventually("the right token is in the event", func() error {
		// It changes once a and b are gone.
		reported := confirmation.FindStringSubmatch(s.lastEventMessage("PruneHeld"))
		if reported == nil {
			return errors.New("there is no token yet")
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmAnnotation, reported[1])
		sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.system}}
		return absent(hand.Patch(t.Context(), sync, mergePatch(patch)))
	})
	s.released()
	s.eventually("the namespace is gone", func() error {
		return absent(hand.Get(t.Context(), client.ObjectKey{Name: s.apps}, &corev1.Namespace{}))
	})
}

// lastEventMessage is the message of the newest event of the Sync with that reason.
func (s *syncFixture) lastEventMessage(reason string) string {
	s.Helper()
	var events corev1.EventList
	if err := s.hand.List(s.Context(), &events, client.InNamespace(s.system)); err != nil {
		s.Fatal(err)
	}
	message := ""
	var at metav1.Time
	for _, e := range events.Items {
		if e.Reason == reason && e.InvolvedObject.Name == s.name && !e.LastTimestamp.Before(&at) {
			message, at = e.Message, e.LastTimestamp
		}
	}
	return message
}
