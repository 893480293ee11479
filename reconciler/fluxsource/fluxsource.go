// Package fluxsource reads the artifact that a source of Flux has, which a Sync names in spec.sourceRef, and
// watches it.
//
// It reads that one object, as it is in the API server, and fetches nothing. Whether a source is suspended, or its last
// attempt failed, is no concern of a Sync: its artifact stays what it fetched last, as for Flux's own
// Kustomizations. Start reading at Source.Artifact.
package fluxsource

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/objectwatch"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// accessDenied is the reason of a Sync that may not use its source, as in Flux.
const accessDenied = "AccessDenied"

// defaultAPIVersion is that of a reference without one.
const defaultAPIVersion = "source.toolkit.fluxcd.io/v1"

// Source is a source of Flux that a Sync names.
type Source struct {
	ref       v1alpha1.CrossNamespaceSourceReference
	namespace string
	// denied is why the Sync may not use it; nil where it may.
	denied    error
	kinds     discovery.DiscoveryInterface
	resource  schema.GroupVersionResource
	resources dynamic.NamespaceableResourceInterface
}

// New makes a Source of what a Sync's spec.sourceRef names. It makes no request. With noCrossNamespaceRefs it
// may be only in the Sync's namespace.
func New(config *rest.Config, sync *v1alpha1.Sync, noCrossNamespaceRefs bool) (*Source, error) {
	ref := *sync.Spec.SourceRef
	version, err := schema.ParseGroupVersion(cmp.Or(ref.APIVersion, defaultAPIVersion))
	if err != nil {
		return nil, fmt.Errorf("reading spec.sourceRef: %w", err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(ref.Kind))
	s := &Source{ref: ref, namespace: cmp.Or(ref.Namespace, sync.Namespace), resource: plural}
	if noCrossNamespaceRefs && s.namespace != sync.Namespace {
		s.denied = state.Failf(state.Stalled, accessDenied, "spec.sourceRef names %s, and --no-cross-namespace-refs allows only sources in namespace %s", s.Name(), sync.Namespace)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Name(), err)
	}
	s.resources = client.Resource(plural)
	if s.kinds, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Name(), err)
	}
	return s, nil
}

// Name is the kind, namespace and name, as messages have them.
func (s *Source) Name() string { return s.ref.Kind + " " + s.namespace + "/" + s.ref.Name }

// Artifact is what the source has fetched last. Where there is none its error is a gitsource.ErrArtifact, with the reason.
func (s *Source) Artifact(ctx context.Context) (fluxmeta.Artifact, error) {
	if s.denied != nil {
		return fluxmeta.Artifact{}, s.denied
	}
	object, err := s.resources.Namespace(s.namespace).Get(ctx, s.ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !s.served():
		return fluxmeta.Artifact{}, fmt.Errorf("reading %s: %w: this cluster has no resource %s of %s: install Flux's source-controller, or a newer one, name a version that is served in spec.sourceRef.apiVersion, or follow Git by spec.source",
			s.Name(), gitsource.ErrArtifact, s.resource.Resource, s.resource.GroupVersion())
	case apierrors.IsNotFound(err):
		return fluxmeta.Artifact{}, fmt.Errorf("reading %s: %w: it does not exist", s.Name(), gitsource.ErrArtifact)
	case apierrors.IsForbidden(err):
		return fluxmeta.Artifact{}, fmt.Errorf("reading %s: %w: %w; grant get and watch of it, as config/flux/sources does", s.Name(), gitsource.ErrArtifact, err)
	case err != nil:
		return fluxmeta.Artifact{}, fmt.Errorf("reading %s: %w: %w", s.Name(), gitsource.ErrUnreachable, err)
	}
	status := statusOf(object)
	if status.Artifact == nil {
		return fluxmeta.Artifact{}, fmt.Errorf("reading %s: %w: it has not fetched anything yet%s", s.Name(), gitsource.ErrArtifact, status.unready())
	}
	return *status.Artifact, nil
}

// served reports whether the API server has the kind; also where that cannot be read.
func (s *Source) served() bool {
	list, err := s.kinds.ServerResourcesForGroupVersion(s.resource.GroupVersion().String())
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	for _, r := range list.APIResources {
		if r.Name == s.resource.Resource {
			return true
		}
	}
	return false
}

// Watch calls changed, without keys, when the source has another artifact or is gone, until ctx ends.
func (s *Source) Watch(ctx context.Context, changed func([]state.Key)) error {
	if s.denied != nil {
		<-ctx.Done()
		return nil
	}
	objectwatch.Watch(ctx, s.resources.Namespace(s.namespace).Watch, s.ref.Name, artifactOf, func() { changed(nil) })
	return nil
}

// artifactOf is what has to differ for a Sync to have another result: not the time at which the same was fetched again.
func artifactOf(o runtime.Object) string {
	object, ok := o.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	status := statusOf(object)
	if a := status.Artifact; a != nil {
		return strings.Join([]string{a.Revision, a.Digest, a.URL}, "\n")
	}
	return "none" + status.unready()
}

// status is what a Sync reads of the status of a source.
type status struct {
	Artifact   *fluxmeta.Artifact `json:"artifact,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// statusOf is the status of an object that Flux has checked against its schema; empty where it is not of that.
func statusOf(object *unstructured.Unstructured) status {
	var out status
	raw, _, _ := unstructured.NestedMap(object.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &out); err != nil {
		return status{}
	}
	return out
}

// unready is why the source is not Ready, where it reports that.
func (s status) unready() string {
	ready := meta.FindStatusCondition(s.Conditions, fluxmeta.ReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf("; it is not ready, with reason %s: %s", sanitize.Text(ready.Reason), sanitize.Text(ready.Message))
}
