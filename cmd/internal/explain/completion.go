package explain

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis"

	"github.com/poolwright/poolwright/cmd/internal/get"
)

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// completions returns the kinds, and behind one the names of its objects, of pods the pending ones of the namespace; none where they cannot
// be listed.
func completions(ctx context.Context, env get.Environment, args []string) []string {
	if len(args) == 0 {
		return Kinds()
	}
	// The name is still to be completed.
	t, err := parse([]string{args[0], ""}, env.Namespace)
	if err != nil || len(args) > 1 {
		return nil
	}
	kube, err := get.Connect(env)
	if err != nil {
		return nil
	}
	var list metav1.PartialObjectMetadataList
	var options []client.ListOption
	switch t.Kind {
	case KindPod:
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		options = []client.ListOption{client.InNamespace(t.Namespace), client.MatchingFields{"status.phase": string(corev1.PodPending)}}
	case KindNode:
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	case KindPool:
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: apis.Group, Version: "v1", Kind: "NodePoolList"})
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	if err := kube.List(ctx, &list, options...); err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}
