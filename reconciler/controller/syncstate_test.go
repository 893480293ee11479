package controller

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
)

// What a SyncRuntime is built from is read once: where it changes, another has to be built.
func TestEachFieldThatARuntimeIsBuiltFromMakesAnother(t *testing.T) {
	ref := func(change func(*v1alpha1.CrossNamespaceSourceReference)) func(*v1alpha1.Sync) {
		return func(sync *v1alpha1.Sync) { change(sync.Spec.SourceRef) }
	}
	git := func(change func(*v1alpha1.GitSource)) func(*v1alpha1.Sync) {
		return func(sync *v1alpha1.Sync) { change(&sync.Spec.Source.Git) }
	}
	rolledBackTo := func(commit string) func(*v1alpha1.Sync) {
		return func(sync *v1alpha1.Sync) { sync.Annotations = map[string]string{v1alpha1.RollbackAnnotation: commit} }
	}
	flux := func(sync *v1alpha1.Sync) {
		sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "nodes"}
	}
	signed := func(sync *v1alpha1.Sync) {
		sync.Spec.Source.Git.Verify = &v1alpha1.GitVerification{Mode: v1alpha1.GitVerificationHEAD, SecretRef: v1alpha1.SecretRef{Name: "signers"}}
	}
	none := func(*v1alpha1.Sync) {}
	for name, c := range map[string]struct{ before, change func(*v1alpha1.Sync) }{
		"SourceRef":            {flux, func(sync *v1alpha1.Sync) { sync.Spec.SourceRef = nil }},
		"SourceRef, its API":   {flux, ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.APIVersion = "source.toolkit.fluxcd.io/v1beta2" })},
		"SourceRef, its kind":  {flux, ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.Kind = "Bucket" })},
		"SourceRef, its name":  {flux, ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.Name = "other" })},
		"SourceRef, its place": {flux, ref(func(r *v1alpha1.CrossNamespaceSourceReference) { r.Namespace = "other" })},
		"URL":                  {none, git(func(g *v1alpha1.GitSource) { g.URL = "https://git.example.com/other.git" })},
		"Ref, its branch":      {none, git(func(g *v1alpha1.GitSource) { g.Ref.Branch = "next" })},
		"Ref, its tag":         {none, git(func(g *v1alpha1.GitSource) { g.Ref.Tag = "v1" })},
		"Ref, its commit":      {none, git(func(g *v1alpha1.GitSource) { g.Ref.Commit = strings.Repeat("1", 40) })},
		"FastForwardOnly":      {none, git(func(g *v1alpha1.GitSource) { g.FastForwardOnly = new(false) })},
		"SecretRef":            {none, git(func(g *v1alpha1.GitSource) { g.SecretRef = &v1alpha1.SecretRef{Name: "git"} })},
		"Provider":             {none, git(func(g *v1alpha1.GitSource) { g.Provider = v1alpha1.GitProviderGitHub })},
		"ProxySecretRef":       {none, git(func(g *v1alpha1.GitSource) { g.ProxySecretRef = &v1alpha1.SecretRef{Name: "proxy"} })},
		"Verify":               {none, signed},
		"Verify, its mode":     {signed, git(func(g *v1alpha1.GitSource) { g.Verify.Mode = v1alpha1.GitVerificationEveryCommit })},
		"Verify, its keys":     {signed, git(func(g *v1alpha1.GitSource) { g.Verify.SecretRef.Name = "other" })},
		"a rollback":           {none, rolledBackTo(strings.Repeat("1", 40))},
		"another rollback":     {rolledBackTo(strings.Repeat("1", 40)), rolledBackTo(strings.Repeat("2", 40))},
		"the end of one":       {rolledBackTo(strings.Repeat("1", 40)), rollback.End},
		"Path":                 {none, func(sync *v1alpha1.Sync) { sync.Spec.Path = "other" }},
		"Ignore":               {none, func(sync *v1alpha1.Sync) { sync.Spec.Ignore = []v1alpha1.IgnoreRule{{Paths: []string{"/spec/a"}}} }},
		"Substitute":           {none, func(sync *v1alpha1.Sync) { sync.Spec.Substitute = map[string]string{"a": "b"} }},
		"SubstituteFrom":       {none, func(sync *v1alpha1.Sync) { sync.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Name: "a"}} }},
	} {
		sync := &v1alpha1.Sync{}
		c.before(sync)
		before := fingerprintOf(sync)
		if fingerprintOf(sync.DeepCopy()) != before {
			t.Errorf("%s: an equal Sync has another fingerprint", name)
		}
		c.change(sync)
		if fingerprintOf(sync) == before {
			t.Errorf("%s: a change of it is not applied before a restart", name)
		}
	}
}

// A field that is added to a source is one of those above.
func TestEachFieldOfASourceMakesAnotherRuntime(t *testing.T) {
	for kind, tested := range map[reflect.Type][]string{
		reflect.TypeFor[v1alpha1.Source]():          {"Git"},
		reflect.TypeFor[v1alpha1.GitSource]():       {"URL", "Ref", "FastForwardOnly", "SecretRef", "Provider", "ProxySecretRef", "Verify"},
		reflect.TypeFor[v1alpha1.GitRef]():          {"Branch", "Tag", "Commit"},
		reflect.TypeFor[v1alpha1.GitVerification](): {"Mode", "SecretRef"},
	} {
		for field := range kind.Fields() {
			if !slices.Contains(tested, field.Name) {
				t.Errorf("whether %s of %s makes another is not tested", field.Name, kind.Name())
			}
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
