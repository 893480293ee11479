package e2e

import (
	"fmt"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// waitsFor waits until the Sync is not ready for the reason and a message with the text.
func (s *syncFixture) waitsFor(reason, text string) {
	s.Helper()
	s.eventually("the Sync waits: "+text, func() error {
		ready := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, text) {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

// changeAs edits another Sync than that of the fixture, as kubectl edit does.
func (s *syncFixture) changeAs(name string, edit func(*v1alpha1.Sync)) {
	s.Helper()
	sync, err := s.read(name)
	if err != nil {
		s.Fatal(err)
	}
	before := sync.DeepCopy()
	edit(sync)
	if err := s.hand.Patch(s.Context(), sync, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

func TestASyncIsAppliedAfterWhatItDependsOn(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "depends")
	base := s.name + "-base"
	s.repo.write("base/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", s.apps))
	s.repo.write("base/model.yaml", s.configMap("model", "v1"))
	for _, name := range []string{"a", "b"} {
		s.repo.write("config/"+name+".yaml", s.configMap(name, "v1"))
	}
	first := s.repo.commit("Begin")
	s.start()
	// No interval may help: dependencies are watched.
	s.follow(every("10m"), func(sync *v1alpha1.Sync) { sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: base}} })
	s.waitsFor("DependencyNotReady", "Sync "+base+": it does not exist")
	s.syncNamed(base, every("10m"), serving, func(sync *v1alpha1.Sync) { sync.Spec.Path, sync.Spec.Wait = "base", true })
	s.waitsFor("DependencyNotReady", "Sync "+base+": it is not ready, with reason Progressing")
	s.holds("model", "v1")
	if s.live("a") != nil {
		t.Error("it is applied before what it depends on is ready")
	}
	s.edit("model", `{"data":{"phase":"Serving"}}`)
	s.ready()
	s.holds("a", "v1")

	// A dependency that fails leaves the correction of drift as it was. No revision is applied, and nothing pruned.
	s.edit("model", `{"data":{"phase":"Broken"}}`)
	s.waitsFor("DependencyNotReady", "Sync "+base+": it is not ready, with reason HealthCheckFailed")
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")
	s.uproot("b")
	s.holds("b", "v1")
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.remove("config/b.yaml")
	s.repo.commit("Go on")
	s.handledAs(base)
	s.handled()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")
	if got := s.sync().Status; s.live("b") == nil || got.LastAppliedRevision != first || got.LastAttemptedRevision != s.repo.revision() {
		t.Errorf("b is %v, and the status %+v", s.live("b"), got)
	}
	s.edit("model", `{"data":{"phase":"Serving"}}`)
	s.ready()
	s.holds("a", "v2")
	s.gone("b")

	// Of the same repository, what it depends on has to apply the same revision first.
	s.repo.write("base/model.yaml", s.configMap("model", "v3"))
	s.repo.write("config/a.yaml", s.configMap("a", "v3"))
	s.repo.commit("Change both")
	s.handled()
	s.waitsFor("DependencyNotReady", "it has not applied revision "+s.repo.revision())
	if a, model := s.live("a").Data["value"], s.live("model").Data["value"]; a != "v2" || model != "v1" {
		t.Errorf("a is %s, and model is %s", a, model)
	}
	s.handledAs(base)
	s.ready()
	s.holds("a", "v3")

	s.changeAs(base, func(sync *v1alpha1.Sync) { sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: s.name}} })
	s.waitsFor("CircularDependency", s.name+" -> "+base+" -> "+s.name)
	s.changeAs(base, func(sync *v1alpha1.Sync) { sync.Spec.DependsOn = nil })
	s.ready()
	sync, err := s.read(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.hand.Delete(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	s.waitsFor("DependencyNotReady", "Sync "+base+": it does not exist")
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.DependsOn[0].Namespace = "elsewhere" })
	s.waitsFor("InvalidDependency", "elsewhere/"+base)
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.DependsOn = nil })
	s.ready()
	itself := s.sync()
	itself.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: s.name}}
	if err := s.hand.Update(t.Context(), itself); err == nil || !strings.Contains(err.Error(), "a Sync cannot depend on itself") {
		t.Errorf("it may depend on itself: %v", err)
	}
}
