package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// scaledDeployment is a Deployment as Git declares it.
func (s *syncFixture) scaledDeployment(replicas int, image string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: %q}]}
`, s.apps, replicas, image)
}

// deployment is the live one.
func (s *syncFixture) deployment() *appsv1.Deployment {
	s.Helper()
	out := &appsv1.Deployment{}
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: s.apps, Name: "web"}, out); err != nil {
		s.Fatal(err)
	}
	return out
}

// patchDeployment changes the live one by hand.
func (s *syncFixture) patchDeployment(patch string) {
	s.Helper()
	if err := s.hand.Patch(s.Context(), s.deployment(), client.RawPatch("application/strategic-merge-patch+json", []byte(patch)), client.FieldOwner("kubectl-edit")); err != nil {
		s.Fatal(err)
	}
}

// hasDeployment waits until the live one has such replicas and image.
func (s *syncFixture) hasDeployment(replicas int32, image string) {
	s.Helper()
	s.eventually(fmt.Sprintf("there are %d replicas of %s", replicas, image), func() error {
		live := s.deployment()
		if n, i := *live.Spec.Replicas, live.Spec.Template.Spec.Containers[0].Image; n != replicas || i != image {
			return fmt.Errorf("%d of %s", n, i)
		}
		return nil
	})
}

func TestAnIgnoredFieldIsLeftToOthers(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "ignore")
	s.declare("v1", "a")
	s.repo.write("config/web.yaml", s.scaledDeployment(2, "nginx:1"))
	s.repo.commit("Begin")
	s.start()
	rules := []v1alpha1.IgnoreRule{
		{Paths: []string{"/spec/replicas"}, Target: &v1alpha1.Selector{Kind: "Deployment"}},
		{Paths: []string{"/data/x"}, Target: &v1alpha1.Selector{Name: "none"}},
	}
	s.follow(every("10m"), func(sync *v1alpha1.Sync) { sync.Spec.Ignore = rules })
	s.ready()
	s.hasDeployment(2, "nginx:1")
	if texts := s.waitForEvent("IgnoreRuleUnused"); !strings.Contains(texts, "spec.ignore[1]") || strings.Contains(texts, "spec.ignore[0]") {
		t.Errorf("the event on a rule without an object: %s", texts)
	}

	// One edit of both fields: the one beside it is put back by watch, which proves that the other was observed.
	s.patchDeployment(`{"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"web","image":"by-hand"}]}}}}`)
	s.hasDeployment(5, "nginx:1")

	s.repo.write("config/web.yaml", s.scaledDeployment(7, "nginx:2"))
	s.repo.commit("Change both")
	s.handled()
	s.ready()
	s.hasDeployment(5, "nginx:2")
	want := []v1alpha1.IgnoredFields{{Object: "Deployment.apps/" + s.apps + "/web", Fields: []string{"spec.replicas"}, Source: "config/web.yaml:1"}}
	if d := cmp.Diff(want, s.sync().Status.Ignored); d != "" {
		t.Errorf("status.ignored (-want +got):\n%s", d)
	}
	out, err := exec.CommandContext(t.Context(), binary, "get", "drift", "--kubeconfig="+s.now.api.kubeconfig, "-n", s.system).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ignored: spec.replicas") {
		t.Errorf("poolwright get drift: %v\n%s", err, out)
	}

	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Ignore = nil })
	s.hasDeployment(7, "nginx:2")
	s.ready()
	if got := s.sync().Status.Ignored; got != nil {
		t.Errorf("nothing is ignored any more, and the status has %v", got)
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Ignore = rules[:1] })
	s.handled()
	s.ready()
	s.patchDeployment(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","image":"by-hand"}]}}}}`)
	s.hasDeployment(3, "nginx:2")
}

func TestARuleThatMayNotBeIsRefusedByTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "ignore-refused")
	s.declare("v1", "a")
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	for name, tt := range map[string]struct{ path, refusal string }{
		"a field":                 {"/spec/replicas", ""},
		"an annotation":           {"/metadata/annotations/example.com~1x", ""},
		"a label named like more": {"/metadatas/labels", ""},
		"no pointer":              {"spec", "spec.ignore[0].paths[0]"},
		"the whole object":        {"", "spec.ignore[0].paths[0]"},
		"a lone tilde":            {"/a~b", "spec.ignore[0].paths[0]"},
		"all metadata":            {"/metadata", "of metadata, only"},
		"all labels":              {"/metadata/labels", "of metadata, only"},
		"owners":                  {"/metadata/ownerReferences", "of metadata, only"},
		"our label":               {"/metadata/labels/poolwright.dev~1sync", "of metadata, only"},
		"the status":              {"/status/phase", "cannot be ignored"},
		"the kind":                {"/kind", "cannot be ignored"},
	} {
		sync := s.sync()
		sync.Spec.Ignore = []v1alpha1.IgnoreRule{{Paths: []string{tt.path}}}
		err := s.hand.Update(t.Context(), sync, client.DryRunAll)
		if (err == nil) != (tt.refusal == "") || err != nil && !strings.Contains(err.Error(), tt.refusal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.change(func(sync *v1alpha1.Sync) {
		sync.Spec.Ignore = []v1alpha1.IgnoreRule{{Paths: []string{"/spec"}, Target: &v1alpha1.Selector{Name: "("}}}
	})
	s.waitsFor("InvalidIgnoreRule", "spec.ignore[0].target.name")
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Ignore = nil })
	s.ready()
}
