// Package crdinstall installs the definitions of Karpenter's kinds.
//
// It never downgrades one, whoever wrote it, and deletes none. Start reading at Install.
package crdinstall

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// VersionAnnotation is, on a CRD, the Karpenter that it was written for.
const VersionAnnotation = "poolwright.dev/karpenter-version"

// Install creates or updates a CRD, which has VersionAnnotation. It returns why the live one is kept, empty where
// it is not: because it is newer, as by its annotation, or by a version or a field that objects would lose.
func Install(ctx context.Context, c client.Client, want *apiextensionsv1.CustomResourceDefinition) (string, error) {
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
	next.Annotations[VersionAnnotation] = want.Annotations[VersionAnnotation]
	if live.Annotations[VersionAnnotation] == want.Annotations[VersionAnnotation] && sameSpec(live, next) {
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
	ourVersion := want.Annotations[VersionAnnotation]
	if written := live.Annotations[VersionAnnotation]; written != "" {
		theirs, err := version.ParseSemantic(written)
		if err != nil {
			return fmt.Sprintf("its annotation %s is %q, which is no version", VersionAnnotation, written)
		}
		if order, err := theirs.Compare(ourVersion); err != nil || order > 0 {
			return fmt.Sprintf("it was written for Karpenter %s, newer than our %s", written, ourVersion)
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
				return fmt.Sprintf("it stores version %s, which Karpenter %s does not have", v.Name, ourVersion)
			}
			continue
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		if field := missingProperty(v.Schema.OpenAPIV3Schema, schema, v.Name); field != "" {
			return fmt.Sprintf("it has the field %s, which Karpenter %s does not have", field, ourVersion)
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

// WaitServed returns once the API server serves the kind of a CRD, or with the error after half a minute.
func WaitServed(ctx context.Context, c client.Client, name string) error {
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
