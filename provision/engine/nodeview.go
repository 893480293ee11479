package engine

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// chainTransform runs on every Node before it enters the cache, after the transform
// that the cache had anyway.
func chainTransform(show func(*corev1.Node), first toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if first != nil {
			var err error
			if object, err = first(object); err != nil {
				return nil, err
			}
		}
		if node, ok := object.(*corev1.Node); ok {
			show(node)
		}
		return object, nil
	}
}
