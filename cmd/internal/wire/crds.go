package wire

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// ownCRDs are the CustomResourceDefinitions of our own kinds, as the binary
// carries them.
func ownCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
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

// installOwnCRDs brings our kinds, never going back to an older serial, and
// waits until they are served.
func installOwnCRDs(ctx context.Context, c client.Client) error {
	crds, err := ownCRDs()
	if err != nil {
		return err
	}
	for _, want := range crds {
		if err := installOwnCRD(ctx, c, want); err != nil {
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

func installOwnCRD(ctx context.Context, c client.Client, want *apiextensionsv1.CustomResourceDefinition) error {
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
