package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// shipped creates the objects of config/rbac/<name> for this stage's controller.
func (s *syncFixture) shipped(name string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", name))
	if err != nil {
		s.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("poolwright-system"), []byte(s.system))
	text = bytes.ReplaceAll(text, []byte("name: poolwright-"), []byte("name: "+s.name+"-"))
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			s.Fatal(err)
		}
		if err := s.hand.Create(s.Context(), &object); err != nil {
			s.Fatal(err)
		}
	}
}

// grant lets the stage's controller do everything to the resources of the core
// group.
func (s *syncFixture) grant(name string, resources ...string) {
	s.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-" + name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: resources,
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "poolwright", Namespace: s.system}},
	}
	if err := s.hand.Create(s.Context(), role); err != nil {
		s.Fatal(err)
	}
	if err := s.hand.Create(s.Context(), binding); err != nil {
		s.Fatal(err)
	}
}

func TestNarrowPermissionsAreEnoughForWhatTheyName(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "permissions")
	s.user = "system:serviceaccount:" + s.system + ":poolwright"
	s.shipped("controller.yaml") // and neither engine.yaml nor cluster-reconciler.yaml
	s.grant("narrow", "namespaces", "configmaps")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")

	s.repo.write("config/account.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x, namespace: "+s.apps+"}\n")
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.remove("config/b.yaml")
	s.repo.commit("Add a ServiceAccount, change a, remove b")
	s.holds("a", "v2")
	if message := s.waitForNotReady("ApplyFailed"); !strings.Contains(message, "serviceaccounts") || !strings.Contains(message, "config/account.yaml:1") {
		t.Errorf("the message does not say what is missing for which file: %s", message)
	}
	isPending(t, s.handled(), "ServiceAccount/"+s.apps+"/x", "config/account.yaml:1")
	if s.live("b") == nil {
		t.Error("b was pruned although something could not be applied")
	}
	s.grant("wider", "serviceaccounts")
	s.ready()
	s.gone("b")
	// What dies with a namespace cannot be counted without permissions: that waits.
	s.repo.remove("config/namespace.yaml")
	s.repo.commit("Remove the namespace")
	if message := s.waitForNotReady("PruneHeld"); !strings.Contains(message, "could not be counted") {
		t.Errorf("the message does not say why it waits: %s", message)
	}
	s.deleteSync()
	s.released()
}
