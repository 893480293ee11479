package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	coreapis "sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"
)

// KarpenterVersion is the embedded Karpenter's version, core and AWS provider; a
// test compares it with the module that is linked.
const KarpenterVersion = "1.15.1"

// crdAnnotation, on a CRD, is the Karpenter that it was written for.
const crdAnnotation = "poolwright.dev/karpenter-version"

// CRDKept is a CRD that InstallCRDs left as it is because it is newer.
type CRDKept struct {
	// Name is the CRD's name.
	Name string
	// Reason is why it is not replaced.
	Reason string
}

// CRDs are the kinds that the engine works on: the AWS provider's NodePool,
// NodeClaim, NodeOverlay and EC2NodeClass (its versions of Karpenter's kinds are
// stricter than the core's), and the core's CapacityBuffer where that gate is on.
// The caller may change them.
func CRDs(s Settings) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	raw := [][]byte{awsapis.NodePoolCRD, awsapis.NodeClaimCRD, awsapis.NodeOverlayCRD, awsapis.EC2NodeClassCRD}
	if resolveGates(s.FeatureGates).CapacityBuffer {
		raw = append(raw, coreapis.CapacityBufferCRD)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, text := range raw {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("reading an embedded CRD: %w", err)
		}
		if crd.Annotations == nil {
			crd.Annotations = map[string]string{}
		}
		crd.Annotations[crdAnnotation] = KarpenterVersion
		all = append(all, crd)
	}
	return all, nil
}

// InstallCRDs creates or updates the engine's CRDs and waits until they are
// served. It never downgrades: it leaves a CRD alone when its annotation names a
// newer Karpenter, or when, whoever wrote it, it has a version or a field that
// ours lacks, because replacing it would lose what objects have there. Those it
// returns. The client's scheme must have apiextensions.k8s.io/v1 and have no cache.
func InstallCRDs(ctx context.Context, c client.Client, s Settings) ([]CRDKept, error) {
	crds, err := CRDs(s)
	if err != nil {
		return nil, err
	}
	var kept []CRDKept
	for _, crd := range crds {
		because, err := installCRD(ctx, c, crd)
		if err != nil {
			return kept, err
		}
		if because != "" {
			kept = append(kept, CRDKept{Name: crd.Name, Reason: because})
		}
	}
	for _, crd := range crds {
		if err := waitServed(ctx, c, crd.Name); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

func installCRD(ctx context.Context, c client.Client, want *apiextensionsv1.CustomResourceDefinition) (string, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
	if apierrors.IsNotFound(err) {
		if err := c.Create(ctx, want.DeepCopy()); err != nil {
			return "", fmt.Errorf("creating CRD %q: %w", want.Name, err)
		}
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading CRD %q: %w", want.Name, err)
	}
	if because := newer(live, want); because != "" {
		return because, nil
	}
	next := live.DeepCopy()
	next.Spec = *want.Spec.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(next)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&next.Spec)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[crdAnnotation] = want.Annotations[crdAnnotation]
	if live.Annotations[crdAnnotation] == want.Annotations[crdAnnotation] && sameSpec(live, next) {
		return "", nil
	}
	if err := c.Update(ctx, next); err != nil { // with the version that was compared
		return "", fmt.Errorf("updating CRD %q: %w", want.Name, err)
	}
	return "", nil
}

// sameSpec compares as JSON: defaults inside a schema are raw text, written with
// or without spaces.
func sameSpec(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	x, errX := json.Marshal(a.Spec)
	y, errY := json.Marshal(b.Spec)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// newer is why the live CRD must not be replaced, or empty.
func newer(live, want *apiextensionsv1.CustomResourceDefinition) string {
	if written := live.Annotations[crdAnnotation]; written != "" {
		theirs, err := version.ParseSemantic(written)
		if err != nil {
			return fmt.Sprintf("its annotation %s is %q, which is no version", crdAnnotation, written)
		}
		if order, err := theirs.Compare(want.Annotations[crdAnnotation]); err != nil || order > 0 {
			return fmt.Sprintf("it was written for Karpenter %s, newer than our %s", written, want.Annotations[crdAnnotation])
		}
	}
	ours := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, v := range want.Spec.Versions {
		ours[v.Name] = v.Schema.OpenAPIV3Schema
	}
	for _, v := range live.Spec.Versions {
		schema, known := ours[v.Name]
		if !known {
			if v.Storage || slices.Contains(live.Status.StoredVersions, v.Name) {
				return fmt.Sprintf("it stores version %s, which Karpenter %s does not have", v.Name, KarpenterVersion)
			}
			continue
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		if field := missingProperty(v.Schema.OpenAPIV3Schema, schema, v.Name); field != "" {
			return fmt.Sprintf("it has the field %s, which Karpenter %s does not have", field, KarpenterVersion)
		}
	}
	return ""
}

// missingProperty is the path of the first property that a has and b would lose. Where b preserves unknown
// fields, as EC2NodeClasses' kubelet does since 1.15, it loses none.
func missingProperty(a, b *apiextensionsv1.JSONSchemaProps, path string) string {
	if b.XPreserveUnknownFields != nil && *b.XPreserveUnknownFields {
		return ""
	}
	names := make([]string, 0, len(a.Properties))
	for name := range a.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		inA, at := a.Properties[name], path+"."+name
		inB, ok := b.Properties[name]
		if !ok {
			return at
		}
		if field := missingProperty(&inA, &inB, at); field != "" {
			return field
		}
	}
	if a.Items != nil && a.Items.Schema != nil && b.Items != nil && b.Items.Schema != nil {
		return missingProperty(a.Items.Schema, b.Items.Schema, path+"[]")
	}
	return ""
}

func waitServed(ctx context.Context, c client.Client, name string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if last = c.Get(ctx, client.ObjectKey{Name: name}, crd); last != nil {
			return false, nil
		}
		return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}), nil
	})
	if err != nil && last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("waiting until CRD %q is served: %w: its conditions name the cause", name, err)
	}
	return nil
}
