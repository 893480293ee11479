// Package crds are the CustomResourceDefinitions of our own kinds and of Karpenter's: as the binary
// carries them, and as a cluster has them. Start reading at Known.
package crds

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Known are the definitions of our own kinds and of the embedded Karpenter's. The caller may
// change them.
func Known() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return KnownOf(func(string) bool { return true })
}

// KnownOf are those of Known of which some objects are declared: declared reports whether the group
// of a kind may be among them. Reading ours takes longer than rendering most folders.
func KnownOf(declared func(group string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	if declared(v1alpha1.GroupVersion.Group) {
		ours, err := own()
		if err != nil {
			return nil, err
		}
		all = ours
	}
	theirs, err := engine.CRDs(engine.DefaultSettings())
	if err != nil {
		return nil, err
	}
	for _, crd := range theirs {
		if declared(crd.Spec.Group) {
			all = append(all, crd)
		}
	}
	return all, nil
}

// Live reads a cluster's definitions of the kinds of Known, each once. It has none of a kind that
// is not among them, that the cluster does not have, or that the client may not read; nor of any
// where live is nil.
func Live(ctx context.Context, live client.Reader) lint.Definition {
	read := map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}
	return func(key state.Key) (*apiextensionsv1.CustomResourceDefinition, error) {
		kind := schema.GroupKind{Group: key.Group, Kind: key.Kind}
		if crd, known := read[kind]; known || live == nil {
			return crd, nil
		}
		all, err := Known()
		if err != nil {
			return nil, err
		}
		read[kind] = nil
		for _, known := range all {
			if known.Spec.Group != kind.Group || known.Spec.Names.Kind != kind.Kind {
				continue
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			switch err := live.Get(ctx, client.ObjectKeyFromObject(known), crd); {
			case err == nil:
				read[kind] = crd
			case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
				return nil, fmt.Errorf("reading CRD %s: %w", known.Name, err)
			}
		}
		return read[kind], nil
	}
}

// own are the CustomResourceDefinitions of our own kinds, as the binary
// carries them.
func own() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded CRDs: %w", err)
	}
	out := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, name := range files {
		raw, err := crd.Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the embedded CRD %s: %w", name, err)
		}
		var c apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &c); err != nil {
			return nil, fmt.Errorf("decoding the embedded CRD %s: %w", name, err)
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[crd.SerialAnnotation] = strconv.Itoa(crd.Serial)
		out = append(out, &c)
	}
	return out, nil
}

// InstallOwn brings our kinds, never going back to an older serial, and
// waits until they are served.
func InstallOwn(ctx context.Context, c client.Client) error {
	crds, err := own()
	if err != nil {
		return err
	}
	for _, want := range crds {
		if err := installOwn(ctx, c, want); err != nil {
			return err
		}
	}
	for _, want := range crds {
		if err := waitEstablished(ctx, c, want.Name); err != nil {
			return err
		}
	}
	return nil
}

func installOwn(ctx context.Context, c client.Client, want *apiextensionsv1.CustomResourceDefinition) error {
	var live apiextensionsv1.CustomResourceDefinition
	err := c.Get(ctx, client.ObjectKeyFromObject(want), &live)
	switch {
	case err == nil:
		serial, err := strconv.Atoi(live.Annotations[crd.SerialAnnotation])
		if err == nil && serial >= crd.Serial {
			return nil
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading CRD %s: %w", want.Name, err)
	}
	// Force: the installation's own kustomization may have written it first.
	want.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	//nolint:staticcheck // Its successor wants generated apply configurations, which CRDs have no use for here.
	err = c.Patch(ctx, want, client.Apply, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying CRD %s: %w", want.Name, err)
	}
	return nil
}

func waitEstablished(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		var live apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &live); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		for _, condition := range live.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until CRD %s is served: %w", name, err)
	}
	return nil
}
