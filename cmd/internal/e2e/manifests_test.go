package e2e

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// problem is one thing that can be wrong with a file of a commit.
type problem struct {
	name  string
	files map[string]string
	// reason is the condition's; says are parts of its message.
	reason  string
	message []string
	// pending is the object that the status lists with its file, if any.
	pending string
}

// survive proves for each problem: the other objects of the commit are applied,
// the bad one is named with its file, and nothing is pruned until it is mended.
func survive(t *testing.T, s *syncFixture, problems []problem) {
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()
	for n, one := range problems {
		ok := t.Run(one.name, func(t *testing.T) {
			s := s.in(t)
			s.declare("v1", "good", "leaving")
			s.repo.commit("Add good and leaving")
			if err := isReady(s.handled(), s.repo.revision()); err != nil {
				t.Fatal(err)
			}
			value := fmt.Sprintf("changed %d", n)
			s.repo.write("config/good.yaml", s.configMap("good", value))
			s.repo.remove("config/leaving.yaml")
			for name, content := range one.files {
				s.repo.write("config/"+name, content)
			}
			s.repo.commit("Make a problem")
			sync := s.handled()
			if got := s.live("good").Data["value"]; got != value {
				t.Errorf("the good object was not applied, it holds %q", got)
			}
			if s.live("leaving") == nil {
				t.Error("an object was pruned although it is not known whether it is declared")
			}
			message := s.waitForNotReady(one.reason)
			for _, text := range one.message {
				if !strings.Contains(message, text) {
					t.Errorf("the message does not hold %q: %s", text, message)
				}
			}
			if one.pending != "" {
				isPending(t, sync, one.pending, one.message[0])
			}
			for name := range one.files {
				s.repo.remove("config/" + name)
			}
			s.repo.commit("Mend it")
			if err := isReady(s.handled(), s.repo.revision()); err != nil {
				t.Error(err)
			}
			if s.live("leaving") != nil {
				t.Error("what left the repository was not pruned after the problem was mended")
			}
		})
		if !ok {
			return
		}
	}
}

// isPending checks that the status lists an object with its place.
func isPending(t *testing.T, sync *v1alpha1.Sync, object, source string) {
	t.Helper()
	for _, p := range sync.Status.Pending {
		if p.Object == object && p.Source == source && p.Reason != "" {
			return
		}
	}
	t.Errorf("%s of %s is not among the pending: %+v", object, source, sync.Status.Pending)
}

func TestOneBadFileStopsNoOther(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "problems")
	s.declare("v1", "good")
	survive(t, s, []problem{
		{
			name: "invalid YAML", reason: "InvalidManifests", message: []string{"config/bad.yaml:3"},
			files: map[string]string{"bad.yaml": "apiVersion: v1\nkind: ConfigMap\n  metadata: {name: x}\n"},
		},
		{
			name: "an object that is declared twice", reason: "InvalidManifests", message: []string{"config/twin.yaml:1", "twice", "config/good.yaml:1"},
			files: map[string]string{"twin.yaml": s.configMap("good", "twin")},
		},
		{
			name: "an unknown kind", reason: "InvalidManifests", message: []string{"config/bad.yaml:1", "does not serve the kind", "Gadget.example.com"},
			files: map[string]string{"bad.yaml": "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: x}\n"},
		},
		{
			name: "a kind in a version that is not served", reason: "InvalidManifests", message: []string{"config/bad.yaml:1", "only v1"},
			files: map[string]string{"bad.yaml": "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: x}\n"},
		},
		{
			name: "a name that nothing can have", reason: "InvalidManifests", message: []string{"config/bad.yaml:1", "Not_A_Name"},
			files: map[string]string{"bad.yaml": s.configMap("Not_A_Name", "x")},
		},
		{
			name: "an object without a name", reason: "InvalidManifests", message: []string{"config/bad.yaml:1", "name"},
			files: map[string]string{"bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x-}\n"},
		},
		{
			name: "a field that the schema of a Sync does not have", reason: "InvalidManifests", message: []string{"config/bad.yaml:5", `spec.pth: unknown field; did you mean "path"?`},
			files: map[string]string{"bad.yaml": fmt.Sprintf("apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata: {name: x, namespace: %s}\nspec:\n  pth: x\n  suspend: true\n  source: {git: {url: \"https://example.com/x\"}}\n", s.apps)},
		},
		{
			name: "a field that the schema of a Cluster does not have", reason: "InvalidManifests", message: []string{"config/bad.yaml:8", `spec.engin: unknown field; did you mean "engine"?`},
			files: map[string]string{"bad.yaml": "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: x}\nspec:\n  name: dev\n  region: eu-west-1\n  account: \"111122223333\"\n  engin: {mode: \"Off\"}\n"},
		},
	})
}

func TestOneRefusedObjectStopsNoOther(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "refusals")
	s.declare("v1", "good", "fixed")
	s.repo.write("config/fixed.yaml", s.configMap("fixed", "v1")+"immutable: true\n")
	s.forbid("forbidden")
	s.hide("sesame-not-base64")
	object := "/" + s.apps + "/"
	survive(t, s, []problem{
		{
			name: "a key that ConfigMaps cannot have", reason: "ApplyFailed", message: []string{"config/bad.yaml:1", "not a key"}, pending: "ConfigMap" + object + "bad",
			files: map[string]string{"bad.yaml": s.configMap("bad", "x") + "  not a key: x\n"},
		},
		{
			name: "what an admission policy denies", reason: "ApplyFailed", message: []string{"config/bad.yaml:1", "forbidden by the test"}, pending: "ConfigMap" + object + "bad",
			files: map[string]string{"bad.yaml": s.configMap("bad", "forbidden")},
		},
		{
			name: "a namespace that does not exist", reason: "ApplyFailed", message: []string{"config/bad.yaml:1", "nowhere"}, pending: "ConfigMap/nowhere/bad",
			files: map[string]string{"bad.yaml": strings.Replace(s.configMap("bad", "x"), s.apps, "nowhere", 1)},
		},
		{
			name: "a field that only the API server finds not to exist", reason: "InvalidManifests", message: []string{"config/bad.yaml:1", "dta"}, pending: "ConfigMap" + object + "bad",
			files: map[string]string{"bad.yaml": strings.Replace(s.configMap("bad", "x"), "\ndata:", "\ndta:", 1)},
		},
		{
			name: "a Secret that is no base64 is not shown", reason: "ApplyFailed", message: []string{"config/bad.yaml:1"}, pending: "Secret" + object + "bad",
			files: map[string]string{"bad.yaml": fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: bad, namespace: %s}\ndata: {key: sesame-not-base64}\n", s.apps)},
		},
	})
	if t.Failed() {
		return
	}
	t.Run("a field that cannot change", func(t *testing.T) {
		s := s.in(t)
		s.repo.write("config/fixed.yaml", s.configMap("fixed", "v2")+"immutable: true\n")
		s.repo.write("config/good.yaml", s.configMap("good", "v2"))
		s.repo.commit("Change what cannot change")
		sync := s.handled()
		if got := s.live("good").Data["value"]; got != "v2" {
			t.Errorf("the good object holds %q", got)
		}
		if got := s.live("fixed").Data["value"]; got != "v1" {
			t.Errorf("the immutable object was made anew and holds %q", got)
		}
		s.waitForNotReady("ApplyFailed")
		isPending(t, sync, "ConfigMap/"+s.apps+"/fixed", "config/fixed.yaml:1")
		s.repo.write("config/fixed.yaml", s.configMap("fixed", "v1")+"immutable: true\n")
		s.repo.commit("Take it back")
		if err := isReady(s.handled(), s.repo.revision()); err != nil {
			t.Error(err)
		}
	})
}

// forbid has an admission policy deny ConfigMaps of the value in the declared
// namespace, and waits until it is in force.
func (s *syncFixture) forbid(value string) {
	s.Helper()
	ctx := s.Context()
	only := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.apps}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf("!has(object.data) || !('value' in object.data) || object.data['value'] != %q", value), Message: "forbidden by the test",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.name, ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"},
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: only},
		},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.apps}}
	for _, object := range []client.Object{namespace, policy, binding} {
		if err := s.hand.Create(ctx, object); err != nil {
			s.Fatal(err)
		}
	}
	s.eventually("the admission policy is in force", func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: s.apps}, Data: map[string]string{"value": value}}
		err := s.hand.Create(ctx, probe, client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("the answer is %w", err)
	})
}

func TestADefinitionAndItsObjectsComeInOneCommit(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "widgets")
	kind := schema.GroupVersionKind{Group: "e2e.poolwright.dev", Version: "v1", Kind: "Widget"}
	definition := crdOf(kind, "widgets", "Namespaced", "{type: object, properties: {spec: {type: object, properties: {size: {type: integer, maximum: 9}}}}}")
	widget := func(name, size string) string {
		return fmt.Sprintf("apiVersion: e2e.poolwright.dev/v1\nkind: Widget\nmetadata: {name: %s, namespace: %s}\nspec: {size: %s}\n", name, s.apps, size)
	}
	// Named so that the definition comes last in the order of files.
	s.declare("v1", "a")
	s.repo.write("config/a-widget.yaml", widget("one", "1"))
	s.repo.write("config/z-definition.yaml", definition)
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	s.repo.write("config/b-widget.yaml", widget("two", "10"))
	s.repo.write("config/a-widget.yaml", widget("one", "2"))
	s.repo.commit("Add a widget that is too large")
	sync := s.handled()
	s.waitForNotReady("ApplyFailed")
	isPending(t, sync, "Widget.e2e.poolwright.dev/"+s.apps+"/two", "config/b-widget.yaml:1")
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	if err := hand.Get(t.Context(), client.ObjectKey{Namespace: s.apps, Name: "one"}, live); err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(live.Object, "spec", "size"); size != 2 {
		t.Errorf("the other widget has size %d", size)
	}
	// The definition leaves together with its objects: that waits for a confirmation.
	s.repo.remove("config/a-widget.yaml", "config/b-widget.yaml", "config/z-definition.yaml")
	s.repo.commit("Remove the widgets and their definition")
	s.handled()
	if message := s.waitForNotReady("PruneHeld"); !strings.Contains(message, "widgets.e2e.poolwright.dev") || !strings.Contains(message, v1alpha1.ConfirmAnnotation) {
		t.Errorf("the message does not say what waits for what: %s", message)
	}
	if !meta.IsStatusConditionTrue(s.sync().Status.Conditions, "Stalled") {
		t.Error("what is held until it is confirmed is not stalled")
	}
}
