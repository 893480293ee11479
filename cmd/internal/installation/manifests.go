// Package installation is what bootstrap and uninstall share: the manifests of an
// installation, what a running one has, its lease, and how a change of it is awaited and
// reported.
package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/config"
	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// Name is under which the objects of an installation are recorded, in an inventory of
// their own beside those of the Syncs.
const Name = kubernetes.Installation

// The names that config/ gives.
const (
	// DefaultNamespace is the controller's.
	DefaultNamespace = "poolwright-system"
	// Deployment is the name of the controller's Deployment, its container and its
	// service account.
	Deployment = "poolwright"
	// PartOfLabel is on every object of an installation, with Deployment as its value.
	PartOfLabel = "app.kubernetes.io/part-of"
	// RoleAnnotation is where the service account has the ARN of its IAM role with IRSA.
	RoleAnnotation = "eks.amazonaws.com/role-arn"
)

// CABundleVariable is the controller's environment variable with the API server's CA
// that nodes get, PEM in base64: Karpenter's own, and part of every drift hash.
const CABundleVariable = "CLUSTER_CA_BUNDLE"

// Manifests is how those of config/ become those of one installation.
type Manifests struct {
	// Namespace is the controller's.
	Namespace string
	// Image is the controller's.
	Image string
	// RoleARN is the IAM role of the service account; empty where Pod Identity
	// gives it, or nobody does.
	RoleARN string
	// CABundle is the CA as another Karpenter has passed it to the nodes that the engine
	// takes over; empty where it was the API server's own.
	CABundle string
}

// Objects are the rendered manifests. They have no origin: it would be a file
// of this repository, not of the reader's.
func (in Manifests) Objects() ([]state.Item, error) {
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
func (in Manifests) relocate(o *unstructured.Unstructured) {
	if o.GetNamespace() == DefaultNamespace {
		o.SetNamespace(in.Namespace)
	}
	if o.GetKind() == "Namespace" && o.GetName() == DefaultNamespace {
		o.SetName(in.Namespace)
	}
	subjects, _ := o.Object["subjects"].([]any)
	for _, s := range subjects {
		if subject, ok := s.(map[string]any); ok && subject["namespace"] == DefaultNamespace {
			subject["namespace"] = in.Namespace
		}
	}
}

// fill sets what config/ leaves to the one who installs.
func (in Manifests) fill(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		// The running controller reads the serial, and leaves its own alone.
		annotate(o, crd.SerialAnnotation, strconv.Itoa(crd.Serial))
	case "ServiceAccount":
		if in.RoleARN != "" {
			annotate(o, RoleAnnotation, in.RoleARN)
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
		container["image"] = in.Image
		if in.CABundle != "" {
			env, _ := container["env"].([]any)
			container["env"] = append(env, map[string]any{"name": CABundleVariable, "value": in.CABundle})
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

// WithoutNewerCRDs leaves out the definitions that a newer release has
// installed: they are never taken back. It names them.
func WithoutNewerCRDs(ctx context.Context, c client.Client, items []state.Item) (kept []state.Item, newer []string, err error) {
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

// Live is what the Deployment of an installation has, empty where there is none: the
// image, the CA bundle of [CABundleVariable], and the value of the flag --watch-label-selector.
type Live struct{ Image, CABundle, WatchLabelSelector string }

// ReadLive reads what the controller that is installed already has; where
// none is, all is empty.
func ReadLive(ctx context.Context, c client.Reader, namespace string) (Live, error) {
	var d appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Deployment}, &d)
	if apierrors.IsNotFound(err) {
		return Live{}, nil
	}
	if err != nil {
		return Live{}, fmt.Errorf("reading Deployment %s/%s: %w", namespace, Deployment, err)
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name != Deployment {
			continue
		}
		live := Live{Image: container.Image, WatchLabelSelector: watchLabelSelector(slices.Concat(container.Command, container.Args))}
		for _, e := range container.Env {
			if e.Name == CABundleVariable {
				live.CABundle = e.Value
			}
		}
		return live, nil
	}
	return Live{}, nil
}

// watchLabelSelector reads the flag as pflag does: its value is behind an equals sign or the next
// argument, and the last one prevails.
func watchLabelSelector(args []string) (value string) {
	for i, arg := range args {
		name, given, has := strings.Cut(arg, "=")
		switch {
		case name != "--watch-label-selector":
		case has:
			value = given
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

// Watched selects the Syncs that the installed controller reconciles, by its flag
// --watch-label-selector: all of them where there is no Deployment, or no flag. The error is that
// of a Deployment which cannot be read, or of a selector which is invalid.
func Watched(ctx context.Context, c client.Reader, namespace string) (labels.Selector, error) {
	live, err := ReadLive(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	selector, err := labels.Parse(live.WatchLabelSelector)
	if err != nil {
		return nil, fmt.Errorf("reading --watch-label-selector of Deployment %s/%s: %w", namespace, Deployment, err)
	}
	return selector, nil
}

// NotWatchedError is of a Sync that the installed controller does not reconcile: nobody handles a request of it, and its status is of
// an earlier time.
type NotWatchedError struct{ message string }

// Error implements error.
func (e NotWatchedError) Error() string { return e.message }

// CheckWatched returns nil where the installed controller reconciles the Sync, and a [NotWatchedError] where it does not. Any other error
// is of what could not be read, so that it is not known: who requests a run needs no permission to read the Deployment, the kubelet
// expands variables in its arguments, and the API server may be away.
func CheckWatched(ctx context.Context, c client.Client, sync *v1alpha1.Sync) error {
	watched, err := Watched(ctx, c, sync.Namespace)
	switch {
	case err != nil:
		return fmt.Errorf("it is not known whether the controller reconciles Sync %s: %w", sync.Name, err)
	case watched.Matches(labels.Set(sync.Labels)):
		return nil
	}
	return NotWatchedError{fmt.Sprintf("Sync %s is not reconciled: its labels do not match --watch-label-selector=%s of Deployment %s/%s; add the labels to it, or change the flag", sync.Name, watched, sync.Namespace, Deployment)}
}

// CheckRequest is CheckWatched of a Sync of which a run was requested. Where it is not known whether the controller reconciles it, that is a
// warning: the request was made, and whoever waits finds out whether it is handled.
func CheckRequest(ctx context.Context, c client.Client, sync *v1alpha1.Sync, warnings io.Writer) error {
	err := CheckWatched(ctx, c, sync)
	if _, is := errors.AsType[NotWatchedError](err); err == nil || is {
		return err
	}
	fmt.Fprintln(warnings, "Warning:", err)
	return nil
}

// SyncItem is a Sync as an object of the installation: only the fields that
// bootstrap decides, so that all others stay as people set them.
func SyncItem(namespace, name string, spec map[string]any) state.Item {
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
