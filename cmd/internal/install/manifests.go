package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/config"
	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// installation is the name under which the objects of an installation are
// remembered, in an inventory of their own beside those of the Syncs.
const installation = kubernetes.Installation

// The names that config/ gives.
const (
	shippedNamespace = "poolwright-system"
	shippedName      = "poolwright" // of the Deployment, its container and its account
	partOfLabel      = "app.kubernetes.io/part-of"
	roleAnnotation   = "eks.amazonaws.com/role-arn"
)

// manifests is how those of config/ become those of one installation.
type manifests struct {
	namespace string
	// image is the controller's.
	image string
	// roleARN is the IAM role of the service account; empty where Pod Identity
	// gives it, or nobody does.
	roleARN string
	// caBundle is the CA as another Karpenter has told it to the nodes that the
	// engine takes over; empty where it was the API server's own.
	caBundle string
}

// objects are the rendered manifests. They have no origin: it would be a file
// of this repository, not of the reader's.
func (in manifests) objects() ([]state.Item, error) {
	found, err := declared.Load(config.Files, "default", declared.Options{})
	if err == nil && len(found.Problems) > 0 {
		err = errors.New(found.Problems[0].String())
	}
	if err != nil {
		return nil, fmt.Errorf("rendering the embedded installation: %w", err)
	}
	var items []state.Item
	for _, item := range found.Set.Items() {
		object := (&unstructured.Unstructured{Object: item.Object}).DeepCopy()
		in.relocate(object)
		if err := in.fill(object); err != nil {
			return nil, fmt.Errorf("rendering the embedded installation: %s: %w", item.Key, err)
		}
		item.Key.Namespace, item.Key.Name = object.GetNamespace(), object.GetName()
		item.Object, item.Origin = object.Object, state.Origin{}
		items = append(items, item)
	}
	return items, nil
}

// relocate moves an object into the chosen namespace. What lies in another one,
// as the role for the cluster's DNS, stays there.
func (in manifests) relocate(o *unstructured.Unstructured) {
	if o.GetNamespace() == shippedNamespace {
		o.SetNamespace(in.namespace)
	}
	if o.GetKind() == "Namespace" && o.GetName() == shippedNamespace {
		o.SetName(in.namespace)
	}
	subjects, _ := o.Object["subjects"].([]any)
	for _, s := range subjects {
		if subject, ok := s.(map[string]any); ok && subject["namespace"] == shippedNamespace {
			subject["namespace"] = in.namespace
		}
	}
}

// fill sets what config/ leaves to the one who installs.
func (in manifests) fill(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		// The running controller reads the serial, and leaves its own alone.
		annotate(o, crd.SerialAnnotation, strconv.Itoa(crd.Serial))
	case "ServiceAccount":
		if in.roleARN != "" {
			annotate(o, roleAnnotation, in.roleARN)
		}
	case "Deployment":
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			return fmt.Errorf("it has %d containers, and must have one: %w", len(containers), err)
		}
		container, ok := containers[0].(map[string]any)
		if !ok {
			return errors.New("its container is no object")
		}
		container["image"] = in.image
		if in.caBundle != "" {
			env, _ := container["env"].([]any)
			container["env"] = append(env, map[string]any{"name": caBundleVariable, "value": in.caBundle})
		}
		return unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
	return nil
}

func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// withoutNewerCRDs leaves out the definitions that a newer release has
// installed: they are never taken back. It names them.
func withoutNewerCRDs(ctx context.Context, c client.Client, items []state.Item) (kept []state.Item, newer []string, err error) {
	for _, item := range items {
		if item.Key.Kind != "CustomResourceDefinition" {
			kept = append(kept, item)
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind((&unstructured.Unstructured{Object: item.Object}).GroupVersionKind())
		err := c.Get(ctx, client.ObjectKey{Name: item.Key.Name}, live)
		if client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("reading CRD %s: %w", item.Key.Name, err)
		}
		if serial, err := strconv.Atoi(live.GetAnnotations()[crd.SerialAnnotation]); err == nil && serial > crd.Serial {
			newer = append(newer, item.Key.Name)
			continue
		}
		kept = append(kept, item)
	}
	return kept, newer, nil
}

// liveInstall is what an installation keeps where nobody says otherwise.
type liveInstall struct{ image, caBundle string }

// liveController reads what the controller that is installed already has; where
// none is, all is empty.
func liveController(ctx context.Context, c client.Client, namespace string) (liveInstall, error) {
	var d appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: shippedName}, &d)
	if apierrors.IsNotFound(err) {
		return liveInstall{}, nil
	}
	if err != nil {
		return liveInstall{}, fmt.Errorf("reading Deployment %s/%s: %w", namespace, shippedName, err)
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name != shippedName {
			continue
		}
		live := liveInstall{image: container.Image}
		for _, e := range container.Env {
			if e.Name == caBundleVariable {
				live.caBundle = e.Value
			}
		}
		return live, nil
	}
	return liveInstall{}, nil
}

// syncItem is a Sync as an object of the installation: only the fields that
// bootstrap decides, so that all others stay as people set them.
func syncItem(namespace, name string, spec map[string]any) state.Item {
	gvk := v1alpha1.GroupVersion.WithKind("Sync")
	return state.Item{
		Key:     state.Key{Target: kubernetes.Name, Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name},
		Version: gvk.Version,
		Object: map[string]any{
			"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind,
			"metadata": map[string]any{"name": name, "namespace": namespace},
			"spec":     spec,
		},
	}
}
