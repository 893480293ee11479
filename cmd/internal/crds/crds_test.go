package crds_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A command runs with the permissions of whoever starts it: who may not read a definition is judged by
// the one in the binary. Any other failure leaves open what the cluster has.
func TestADefinitionIsReadOnceAndMissingOnlyWhereTheClusterHasNone(t *testing.T) {
	definitions := schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}
	down, expired := errors.New("connection refused"), apierrors.NewUnauthorized("expired")
	pool := state.Key{Group: "karpenter.sh", Kind: "NodePool", Name: "p"}
	for name, c := range map[string]struct {
		key   state.Key
		fails error
		found bool
		err   error
		reads int
	}{
		"of a kind that the cluster has":             {key: pool, found: true, reads: 1},
		"that the cluster does not have":             {key: pool, fails: apierrors.NewNotFound(definitions, "nodepools.karpenter.sh"), reads: 1},
		"that the caller may not read":               {key: pool, fails: apierrors.NewForbidden(definitions, "nodepools.karpenter.sh", errors.New("no")), reads: 1},
		"that the API server does not respond about": {key: pool, fails: down, err: down, reads: 1},
		"for which nobody is authenticated":          {key: pool, fails: expired, err: expired, reads: 1},
		"of a kind that is not known":                {key: state.Key{Group: "example.com", Kind: "Widget", Name: "w"}},
		"of a known kind's name in another group":    {key: state.Key{Group: "example.com", Kind: "NodePool", Name: "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := apiextensionsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			all, err := crds.Known()
			if err != nil {
				t.Fatal(err)
			}
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for _, crd := range all {
				builder = builder.WithObjects(crd)
			}
			reads := 0
			live := builder.WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
					if reads++; c.fails != nil {
						return c.fails
					}
					return next.Get(ctx, key, into, opts...)
				},
			}).Build()
			definition := crds.Live(t.Context(), live)
			crd, err := definition(c.key)
			if (crd != nil) != c.found || crd != nil && crd.Spec.Names.Kind != c.key.Kind || (err != nil) != (c.err != nil) || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("read %v, %v; want found %t, error %v", crd, err, c.found, c.err)
			}
			if err == nil {
				if again, err := definition(c.key); again != crd || err != nil {
					t.Errorf("the second time %v, %v", again, err)
				}
			}
			if reads != c.reads {
				t.Errorf("%d reads, want %d", reads, c.reads)
			}
		})
	}
}

// The API server refuses a path that no revision can have, or that a message would show in lines.
func TestAPathOfASyncStaysInTheRepositoryAndOnOneLine(t *testing.T) {
	all, err := crds.Known()
	if err != nil {
		t.Fatal(err)
	}
	for path, fine := range map[string]bool{
		"": true, ".": true, "./clusters/dev": true, "clusters/dev/": true, "größe und mehr/…/a..b": true,
		"/clusters": false, "..": false, "a/../b": false, "a\nb": false, "a\x1b[2K": false, "a\u009bb": false, "a\x7f": false, "a\tb": false,
	} {
		object := fmt.Sprintf("apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata: {name: a, namespace: b}\nspec: {path: %s, source: {git: {url: 'https://git.example/a.git', ref: {branch: main}}}}\n", strconv.QuoteToASCII(path))
		d, err := declared.Load(fstest.MapFS{"a.yaml": {Data: []byte(object)}}, ".", declared.Options{})
		if err != nil || d.Set.Len() != 1 {
			t.Fatalf("%q: %v, %v", path, d.Problems, err)
		}
		if found := lint.Check(d, all); (len(found) == 0) != fine {
			t.Errorf("%q: %v", path, found)
		}
	}
}
