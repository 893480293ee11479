package pluginupdate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"github.com/poolwright/poolwright/provision/gpu"
)

// enqueue adds the one request there is: what to do next is decided for the whole
// cluster.
func enqueue[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request {
		return []reconcile.Request{{}}
	})
}

// ofPlugin lets through what belongs to the plugin, should the cache hold more.
func ofPlugin[T client.Object]() predicate.TypedPredicate[T] {
	return predicate.NewTypedPredicateFuncs(func(object T) bool {
		return object.GetNamespace() == gpu.PluginNamespace && object.GetLabels()[gpu.ConfigLabel] != ""
	})
}

// nodeChanges passes over the kubelets' heartbeats, of which large clusters have
// many a second.
func nodeChanges() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return is.Spec.Unschedulable != was.Spec.Unschedulable ||
			is.DeletionTimestamp.IsZero() != was.DeletionTimestamp.IsZero() ||
			nodeutils.GetCondition(is, corev1.NodeReady).Status != nodeutils.GetCondition(was, corev1.NodeReady).Status ||
			!equality.Semantic.DeepEqual(is.Labels, was.Labels) ||
			!equality.Semantic.DeepEqual(is.Annotations, was.Annotations) ||
			!equality.Semantic.DeepEqual(is.Spec.Taints, was.Spec.Taints) ||
			!equality.Semantic.DeepEqual(is.Status.Allocatable, was.Status.Allocatable)
	}}
}
