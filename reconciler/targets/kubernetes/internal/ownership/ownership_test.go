package ownership

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/reconciler/state/owner"
)

func TestAnOwnerIsWhoStillManagesTheObject(t *testing.T) {
	const name, namespace = "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"
	labels := map[string]string{name: "apps", namespace: "flux-system"}
	instance := map[string]string{"app.kubernetes.io/instance": "shop"}
	tests := []struct {
		name             string
		labels, declared map[string]string
		manager          string
		want             owner.Reference
	}{
		{"Flux applies and labels it", labels, nil, "kustomize-controller", owner.Reference{Kind: owner.FluxKustomization, Name: "flux-system/apps"}},
		{"Flux labels it, and somebody else wrote its fields since", labels, nil, "kubectl-edit", owner.Reference{Kind: owner.FluxKustomization, Name: "flux-system/apps"}},
		{"Flux applies what Git declares with a copy of its labels", labels, labels, "kustomize-controller", owner.Reference{Kind: owner.Flux, Name: "kustomize-controller"}},
		{"Git declares a copy of Flux's labels, and Flux has no fields", labels, labels, "kubectl", owner.Reference{}},
		{"Flux's fields are left on an object without its labels", map[string]string{"app": "web"}, nil, "kustomize-controller", owner.Reference{}},
		{"helm-controller's fields are on a hook, which it does not label", nil, nil, "helm-controller", owner.Reference{Kind: owner.Flux, Name: "helm-controller"}},
		{"Argo CD's fields are on an object without a tracking id, since it may track by a label of another name", nil, nil, "argocd-controller", owner.Reference{Kind: owner.ArgoCD, Name: "argocd-controller"}},
		{"Argo CD labels what it applies with the application", instance, nil, "argocd-controller", owner.Reference{Kind: owner.ArgoCDApplication, Name: "shop"}},
		{"Git declares a copy of Argo CD's label", instance, instance, "argocd-controller", owner.Reference{Kind: owner.ArgoCD, Name: "argocd-controller"}},
		{"Argo CD's label is that of a Helm release, and Argo CD has no fields", instance, nil, "helm", owner.Reference{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			live := &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "web", Labels: tt.labels, ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: tt.manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:value":{}}}`)},
				}},
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
			if err != nil {
				t.Fatal(err)
			}
			declared := &unstructured.Unstructured{Object: map[string]any{}}
			declared.SetLabels(tt.declared)
			if got := OwnerOf(&unstructured.Unstructured{Object: object}, declared.Object); got != tt.want {
				t.Errorf("by the object the owner is %q, want %q", got, tt.want)
			}
			if got := OwnerByMetadata(live.GroupVersionKind(), live, declared.Object); got != tt.want {
				t.Errorf("by its metadata the owner is %q, want %q", got, tt.want)
			}
		})
	}
}
