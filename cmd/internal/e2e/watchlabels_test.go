package e2e

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// installed creates the Deployment of the controller, in which the commands find its flags.
func (s *syncFixture) installed() {
	s.Helper()
	labels := map[string]string{"app": "poolwright"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.system, Name: installation.Deployment}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Image: "poolwright", Args: append([]string{"run"}, s.flags...)}}
	if err := s.hand.Create(s.Context(), d); err != nil {
		s.Fatal(err)
	}
}

// A Sync without the labels that the controller watches is as if there were no controller: neither it nor its objects are written.
func TestOnlySyncsWithTheLabelsThatAreWatchedAreReconciled(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "labels")
	s.repo.write("config/a.yaml", s.configMap("a", "v1"))
	s.repo.write("canary/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", s.apps))
	s.repo.write("canary/b.yaml", s.configMap("b", "v1"))
	s.repo.commit("Begin")
	s.flags = []string{"--watch-label-selector=stage=canary"}
	s.start()
	s.follow(every("10m"))
	const canary = "labels-canary"
	s.syncNamed(canary, every("10m"), func(sync *v1alpha1.Sync) {
		sync.Spec.Path, sync.Labels = "canary", map[string]string{"stage": "canary"}
	})
	s.readyAs(canary)
	s.holds("b", "v1")
	// Controllers of other tests report after five seconds that none has taken it up in this namespace.
	if sync := s.sync(); len(sync.Finalizers) > 0 || sync.Status.LastAppliedRevision != "" || s.live("a") != nil {
		t.Errorf("a Sync without the label: %v, %+v", sync.Finalizers, sync.Status)
	}

	s.change(func(sync *v1alpha1.Sync) { sync.Labels = map[string]string{"stage": "canary"} })
	s.ready()
	s.holds("a", "v1")
	s.installed()
	s.expect(s.command("wait", s.name, "--for=ready", "--timeout=5m"), 0, "Sync "+s.name+": Applied revision ")
	s.change(func(sync *v1alpha1.Sync) { sync.Labels = nil })
	// Its condition Ready is that of the time when it had the label.
	s.expect(s.command("wait", s.name, "--for=ready", "--timeout=5m"), 1, "its labels do not match --watch-label-selector=stage=canary")
	s.expect(s.command("wait", s.name, "--for=applied="+s.repo.revision()), 0, "applied ")
	s.expect(s.command("get", "syncs", s.name), 0, "not reconciled: its labels do not match --watch-label-selector=stage=canary; Applied revision ")
	// A run of the other, so that the controller has received the change before the objects are edited.
	s.handledAs(canary)
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.edit("b", `{"data":{"value":"by hand"}}`)
	s.holds("b", "v1")
	s.handledAs(canary)
	if got := s.live("a").Data["value"]; got != "by hand" {
		t.Errorf("an object of a Sync without the label is %q", got)
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Labels = map[string]string{"stage": "canary"} })
	s.holds("a", "v1")
}
