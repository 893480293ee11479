package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// Client is a snapshot as Karpenter's code reads a cluster. It has the kinds that
// are read while pods are scheduled; every other kind is empty. Nothing can be
// written through it: methods that are not here are nil, and Compare turns what
// follows into an error.
type Client struct {
	client.Client
	Snapshot *Indexed
	// Deleted are the names of Nodes that are taken away, with the pods on them.
	Deleted map[string]bool
	// PodsAggregated leaves out of the pods of a node those that [Indexed.AsCounted] has taken off what it has allocatable.
	PodsAggregated bool
	// Refused are the overlays that Karpenter found wrong.
	Refused map[string]string
}

// Get reads a Node; nothing else is read by name.
func (m *Client) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if out, ok := into.(*corev1.Node); ok {
		if node, there := m.Snapshot.named[key.Name]; there && !m.Deleted[key.Name] {
			*out = *node
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List reads pods, pools, overlays and disruption budgets.
func (m *Client) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	switch out := into.(type) {
	case *corev1.PodList:
		out.Items = m.pods(options)
	case *karpv1.NodePoolList:
		out.Items = nil
		for _, pool := range m.Snapshot.SortedPools() {
			out.Items = append(out.Items, *pool)
		}
	case *karpv1alpha1.NodeOverlayList:
		out.Items = nil
		for _, overlay := range m.Snapshot.Overlays {
			// Its status is written to.
			out.Items = append(out.Items, *overlay.DeepCopy())
		}
	case *policyv1.PodDisruptionBudgetList:
		out.Items = nil
		for _, budget := range m.Snapshot.PodDisruptionBudgets {
			out.Items = append(out.Items, *budget)
		}
	}
	return nil
}

func (m *Client) pods(options *client.ListOptions) []corev1.Pod {
	from := m.Snapshot.listed(options)
	if name, ok := nodeOf(options); ok && m.PodsAggregated && aggregates(m.Snapshot.named[name]) {
		from = slices.DeleteFunc(slices.Clone(from), onlyRequests)
	}
	out := make([]corev1.Pod, 0, len(from))
	for _, pod := range from {
		switch {
		case m.Deleted[pod.Spec.NodeName]:
		case options.Namespace != "" && options.Namespace != pod.Namespace:
		case options.LabelSelector != nil && !options.LabelSelector.Matches(labelsOf(pod)):
		default:
			out = append(out, *pod)
			withoutVolumes(&out[len(out)-1])
		}
	}
	return out
}

// Status takes what Karpenter reports of overlays.
func (m *Client) Status() client.SubResourceWriter { return statuses{client: m} }

// statuses keeps the reason of a refused overlay and drops all else.
type statuses struct {
	client.SubResourceWriter
	client *Client
}

// Patch takes the object as it is to become.
func (s statuses) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	overlay, ok := object.(*karpv1alpha1.NodeOverlay)
	if !ok {
		return errors.New("a simulation writes nothing")
	}
	if found := overlay.StatusConditions().Get(karpv1alpha1.ConditionTypeValidationSucceeded); found.IsFalse() {
		s.client.Refused[overlay.Name] = found.Message
	}
	return nil
}
