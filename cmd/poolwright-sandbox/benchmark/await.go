package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitObject watches one object until check returns nil for it. A watch costs the API server less than
// reads every few milliseconds, and is no later.
func awaitObject[T client.Object](ctx context.Context, e *Environment, object T, list client.ObjectList, check func(T) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	watch, err := e.Admin.Watch(ctx, list, client.InNamespace(object.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", object.GetName())})
	if err != nil {
		return fmt.Errorf("watching %s: %w", object.GetName(), err)
	}
	defer watch.Stop()
	var last error
	for {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				return fmt.Errorf("watching %s: %w", object.GetName(), errors.Join(io.ErrUnexpectedEOF, last))
			}
			now, ok := event.Object.(T)
			if !ok {
				continue
			}
			if last = check(now); last == nil {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", object.GetName(), errors.Join(context.Cause(ctx), last))
		}
	}
}

// awaitAll watches the objects of a list until check is true of so many of them.
func awaitAll(ctx context.Context, e *Environment, list *unstructured.UnstructuredList, namespace string, selected client.MatchingLabels, n int, check func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	watch, err := e.Admin.Watch(ctx, list, client.InNamespace(namespace), selected)
	if err != nil {
		return fmt.Errorf("watching %s: %w", list.GetKind(), err)
	}
	defer watch.Stop()
	done := map[string]bool{}
	for {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				return fmt.Errorf("watching %s: %w", list.GetKind(), io.ErrUnexpectedEOF)
			}
			if now, ok := event.Object.(*unstructured.Unstructured); ok {
				delete(done, now.GetName())
				if check(now) {
					done[now.GetName()] = true
				}
			}
			if len(done) == n {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting until %d of %s are applied, and %d are: %w", n, list.GetKind(), len(done), context.Cause(ctx))
		}
	}
}

// leads returns nil while somebody holds a lease.
func leads(ctx context.Context, admin client.Client, name types.NamespacedName) error {
	var lease coordinationv1.Lease
	if err := admin.Get(ctx, name, &lease); err != nil {
		return fmt.Errorf("reading the lease: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return fmt.Errorf("nobody holds the lease %s", name.Name)
	}
	return nil
}
