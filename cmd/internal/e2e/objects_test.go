package e2e

import (
	"errors"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func leaseObject() client.Object { return &coordinationv1.Lease{} }

func mergePatch(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}

// configMap is a manifest with one value.
func (s *syncFixture) configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata:\n  value: %q\n", name, s.apps, value)
}

// anyFields is the schema of objects that may have any fields.
const anyFields = "{type: object, x-kubernetes-preserve-unknown-fields: true}"

// crdOf is the manifest of the CustomResourceDefinition of a kind in one version, with a status of its own.
func crdOf(kind schema.GroupVersionKind, plural, scope, fields string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: %[3]s
  names: {kind: %[4]s, listKind: %[4]sList, plural: %[1]s, singular: %[5]s}
  versions: [{name: %[6]s, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: %[7]s}}]
`, plural, kind.Group, scope, kind.Kind, strings.ToLower(kind.Kind), kind.Version, fields)
}

// declare writes a namespace and some ConfigMaps of the same value, each in a
// file config/<name>.yaml.
func (s *syncFixture) declare(value string, names ...string) {
	s.repo.write("config/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", s.apps))
	for _, name := range names {
		s.repo.write("config/"+name+".yaml", s.configMap(name, value))
	}
}

// live reads a declared ConfigMap; nil where there is none.
func (s *syncFixture) live(name string) *corev1.ConfigMap {
	s.Helper()
	var found corev1.ConfigMap
	err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: s.apps, Name: name}, &found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return &found
}

// holds waits until a declared ConfigMap has the value.
func (s *syncFixture) holds(name, value string) *corev1.ConfigMap {
	s.Helper()
	var found *corev1.ConfigMap
	s.eventually(fmt.Sprintf("ConfigMap %s holds %q", name, value), func() error {
		if found = s.live(name); found == nil {
			return fmt.Errorf("it does not exist")
		}
		if got := found.Data["value"]; got != value {
			return fmt.Errorf("it holds %q", got)
		}
		return nil
	})
	return found
}

// gone waits until a ConfigMap does not exist.
func (s *syncFixture) gone(name string) {
	s.Helper()
	s.eventually("ConfigMap "+name+" is gone", func() error {
		if s.live(name) != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// edit changes a live ConfigMap by hand.
func (s *syncFixture) edit(name, patch string) {
	s.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.apps, Name: name}}
	if err := s.hand.Patch(s.Context(), object, mergePatch(patch), client.FieldOwner("kubectl-edit")); err != nil {
		s.Fatal(err)
	}
}

// uproot deletes a live ConfigMap by hand.
func (s *syncFixture) uproot(name string) {
	s.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.apps, Name: name}}
	if err := s.hand.Delete(s.Context(), object); err != nil {
		s.Fatal(err)
	}
}

// absent turns the answer about an object into whether it is gone.
func absent(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is there")
	}
	return err
}

// census lists the ConfigMaps of the declared namespace with their incarnations,
// without the one that Kubernetes itself puts there.
func (s *syncFixture) census() map[string]string {
	s.Helper()
	var list corev1.ConfigMapList
	if err := s.hand.List(s.Context(), &list, client.InNamespace(s.apps)); err != nil {
		s.Fatal(err)
	}
	found := map[string]string{}
	for _, c := range list.Items {
		if !strings.HasPrefix(c.Name, "kube-") {
			found[c.Name] = string(c.UID)
		}
	}
	return found
}
