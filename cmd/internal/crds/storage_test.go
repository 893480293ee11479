package crds

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestOneObjectOfEachKindIsListedWhateverFails(t *testing.T) {
	var mu sync.Mutex
	var listed []string
	c := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			mu.Lock()
			defer mu.Unlock()
			kind := list.GetObjectKind().GroupVersionKind()
			var of client.ListOptions
			of.ApplyOptions(options)
			if of.Limit != 1 {
				t.Errorf("%d objects of %s were requested", of.Limit, kind)
			}
			listed = append(listed, kind.Kind)
			return errors.New("the API server is away")
		},
	})
	pools := schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	InitializeStorage(t.Context(), c, pools, pools.GroupVersion().WithKind("NodeClaim"))
	slices.Sort(listed)
	if diff := cmp.Diff([]string{"NodeClaimList", "NodePoolList"}, listed); diff != "" {
		t.Errorf("the kinds that were listed (-want +got):\n%s", diff)
	}
}
