package controller

import (
	"reflect"
	"slices"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// What a SyncRuntime is built from is read once: where it changes, another has to be built.
func TestEachFieldThatARuntimeIsBuiltFromMakesAnother(t *testing.T) {
	ref := func(change func(*v1alpha1.CrossNamespaceSourceReference)) func(*v1alpha1.Sync) {
		return func(sync *v1alpha1.Sync) { change(sync.Spec.SourceRef) }
	}
	for name, change := range map[string]func(*v1alpha1.Sync){
		"Source":               func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Ref.Branch = "next" },
		"SourceRef":            func(sync *v1alpha1.Sync) { sync.Spec.SourceRef = nil },
		"SourceRef, its API":   ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.APIVersion = "source.toolkit.fluxcd.io/v1beta2" }),
		"SourceRef, its kind":  ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.Kind = "Bucket" }),
		"SourceRef, its name":  ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.Name = "other" }),
		"SourceRef, its place": ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.Namespace = "other" }),
		"Path":                 func(sync *v1alpha1.Sync) { sync.Spec.Path = "other" },
		"Ignore":               func(sync *v1alpha1.Sync) { sync.Spec.Ignore = []v1alpha1.IgnoreRule{{Paths: []string{"/spec/a"}}} },
		"Substitute":           func(sync *v1alpha1.Sync) { sync.Spec.Substitute = map[string]string{"a": "b"} },
		"SubstituteFrom":       func(sync *v1alpha1.Sync) { sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Name: "a"}} },
	} {
		sync := &v1alpha1.Sync{Spec: v1alpha1.SyncSpec{SourceRef: &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "nodes"}}}
		before := fingerprintOf(sync)
		if fingerprintOf(sync.DeepCopy()) != before {
			t.Errorf("%s: an equal Sync has another fingerprint", name)
		}
		change(sync)
		if fingerprintOf(sync) == before {
			t.Errorf("%s: a change of it is not applied before a restart", name)
		}
	}
}

// A field that is added to the spec is either of those above, or read at each reconciliation.
func TestEachFieldOfASyncIsReadByTheRuntimeOrAtEachReconciliation(t *testing.T) {
	built := []string{"Source", "SourceRef", "Path", "Ignore", "Substitute", "SubstituteFrom"}
	read := []string{"Interval", "Drift", "Prune", "Guard", "DeletionPolicy", "PullRequests", "DependsOn", "HealthCheckSpec", "Suspend"}
	for field := range reflect.TypeFor[v1alpha1.SyncSpec]().Fields() {
		if slices.Contains(built, field.Name) == slices.Contains(read, field.Name) {
			t.Errorf("%s is in neither list: where a runtime is built from it, it belongs into fingerprintOf", field.Name)
		}
	}
}
