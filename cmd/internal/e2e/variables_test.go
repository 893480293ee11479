package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// variables are what the Sync takes them from, beside it.
func (s *syncFixture) variables(plain map[string]string, token string) {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: s.system}
	settings := &corev1.ConfigMap{ObjectMeta: meta, Data: plain}
	settings.Name = "settings"
	tokens := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"TOKEN": []byte(token)}}
	tokens.Name = "tokens"
	for _, object := range []client.Object{settings, tokens} {
		if err := s.hand.Create(s.Context(), object); err != nil {
			s.Fatal(err)
		}
	}
	s.hide(token)
}

// applied waits until the Secret in Git has the token.
func (s *syncFixture) applied(token string) *corev1.Secret {
	s.Helper()
	var found corev1.Secret
	s.eventually("the Secret has the token", func() error {
		if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: s.apps, Name: "registry"}, &found); err != nil {
			return err
		}
		if string(found.Data["auth"]) != "Bearer "+token {
			return fmt.Errorf("it has another one")
		}
		return nil
	})
	return &found
}

func TestVariablesComeFromTheSyncAndFromObjectsBesideIt(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "variables")
	s.hide("poolwrightsealed") // Nor what stands for a Secret's value.
	s.declare("${VALUE}", "a", "leaving")
	s.repo.write("config/registry.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: registry, namespace: "+s.apps+"}\nstringData:\n  auth: Bearer ${TOKEN}\n")
	s.repo.write("config/named.yaml", strings.Replace(s.configMap("x", "by ${OWNER:=nobody}"), "name: x", "name: '${PREFIX}-named'", 1))
	s.repo.commit("Begin")
	c := s.start()
	// No interval may help: what changes here is found by watch.
	s.follow(every("10m"), func(sync *v1alpha1.Sync) {
		sync.Spec.Substitute = map[string]string{"PREFIX": "team"}
		sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: "ConfigMap", Name: "settings"}, {Kind: "Secret", Name: "tokens"}}
	})

	// It waits for what it takes variables from, and says which.
	if message := s.waitForNotReady("VariablesNotFound"); !strings.Contains(message, "ConfigMap settings, which is not in namespace "+s.system) {
		t.Errorf("the message names nothing to create: %s", message)
	}
	s.variables(map[string]string{"VALUE": "v1"}, "first-token-of-many")
	s.ready()
	s.holds("a", "v1")
	s.holds("team-named", "by nobody")
	s.applied("first-token-of-many")
	s.handled()
	c.api.take()
	s.handled()
	if writes := beyond(c.api.take(), routine(s.name)); len(writes) > 0 {
		t.Errorf("a settled Sync with variables writes: %v", writes)
	}

	// A person's plan has the same values, unless others are given.
	s.expect(s.command("plan", "config"), 0)
	s.expect(s.command("plan", "config", "--substitute", "VALUE=planned"), 1, "v1", "planned")
	typed(t, sharedEnv, s.repo.dir, "lint", "config").expect(t, 0, "config/a.yaml:5: warning: ${VALUE} has no value here")

	// Another value is applied without a commit.
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.system, Name: "settings"}}
	if err := hand.Patch(t.Context(), settings, mergePatch(`{"data":{"VALUE":"v2","OWNER":"us"}}`)); err != nil {
		t.Fatal(err)
	}
	s.holds("a", "v2")
	s.holds("team-named", "by us")
	s.hide("second-token-of-many")
	tokens := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.system, Name: "tokens"}}
	if err := hand.Patch(t.Context(), tokens, mergePatch(`{"stringData":{"TOKEN":"second-token-of-many"}}`)); err != nil {
		t.Fatal(err)
	}
	s.applied("second-token-of-many")

	// What has no value is told with its line, and takes nothing away.
	s.repo.write("config/a.yaml", s.configMap("a", "${MISSING}"))
	s.repo.remove("config/leaving.yaml")
	s.repo.commit("Use a variable that has no value")
	s.handled()
	if message := s.waitForNotReady("InvalidManifests"); !strings.Contains(message, "config/a.yaml:5: ") || !strings.Contains(message, "${MISSING}") {
		t.Errorf("the message does not name the line: %s", message)
	}
	s.holds("a", "v2")
	if s.live("leaving") == nil {
		t.Error("an object was pruned although a variable has no value")
	}
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Substitute["MISSING"] = "v3" })
	s.holds("a", "v3")
	s.gone("leaving")
	s.ready()
}
