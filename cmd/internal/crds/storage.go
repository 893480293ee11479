package crds

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InitializeStorage lists one object of each kind. The API server initializes what it has of a custom
// resource in memory with the first request for it, and has that one try again a second later: here
// nobody waits for it, and later it would be the first run of a Sync, which lists all kinds. What fails
// here fails again where it matters.
func InitializeStorage(ctx context.Context, c client.Reader, kinds ...schema.GroupVersionKind) {
	var requests sync.WaitGroup
	for _, kind := range kinds {
		requests.Go(func() {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			_ = c.List(ctx, list, client.Limit(1))
		})
	}
	requests.Wait()
}
