package hold

import (
	"encoding/json"
	"maps"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// reportedAnnotation is only ever on Nodes in the cache: what the kubelet said
// where the offer says something else.
const reportedAnnotation = "poolwright.dev/gpu-reported"

// reported is the value of reportedAnnotation.
type reported struct {
	// Version is the Node's resource version. A value that came with another one
	// (left in an object that has since been read anew, say) means nothing.
	Version     string              `json:"version"`
	Capacity    corev1.ResourceList `json:"capacity,omitempty"`
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
}

// Vouched returns what the engine's cache makes of every Node that enters it:
// where gpu.OfferAnnotation can be read and the node is initialized, capacity and
// allocatable are the offer's numbers, so that Karpenter buys no node because a
// plugin restarts. Everything else passes as it is; an annotation that cannot be
// read is logged once and ignored. Applying it twice is the same as once.
//
// None of this comes back to the API server. Karpenter writes Nodes only with
// patches between two versions of the same object (finalizers, labels, taints,
// annotations), in which what this changes is the same on both sides; it never
// updates a whole Node nor its status. The API server ignores a status in a write
// of the Node itself, too. Whoever judges a node must read Reported.
func Vouched(logger logr.Logger) func(*corev1.Node) {
	var sulked onceEach
	return func(node *corev1.Node) {
		text, ok := node.Annotations[gpu.OfferAnnotation]
		if !ok || node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
			return
		}
		if _, done := told(node); done {
			return
		}
		offer, err := gpu.ParseOffer(text)
		if err != nil {
			if sulked.news(node.Name, text) {
				logger.Error(err, "ignoring what a node's annotation vouches for", "Node", node.Name, "annotation", gpu.OfferAnnotation)
			}
			return
		}
		vouch(node, offer)
	}
}

// vouch writes the offer over what the kubelet said, and keeps that.
func vouch(node *corev1.Node, offer gpu.Offer) {
	status := &node.Status
	if offer.Differs(status.Capacity) == "" && offer.Differs(status.Allocatable) == "" {
		return
	}
	truth, err := json.Marshal(reported{
		Version:  node.ResourceVersion,
		Capacity: only(offer, status.Capacity), Allocatable: only(offer, status.Allocatable),
	})
	if err != nil {
		return // quantities always marshal; without the truth nothing is changed
	}
	annotations := maps.Clone(node.Annotations)
	annotations[reportedAnnotation] = string(truth)
	node.Annotations = annotations
	status.Capacity, status.Allocatable = offer.Into(status.Capacity), offer.Into(status.Allocatable)
}

// Reported is the Node as its kubelet reports it, from one of the engine's cache.
// Where nothing was changed it is the node itself, otherwise a copy.
func Reported(node *corev1.Node) *corev1.Node {
	truth, ok := told(node)
	if !ok {
		return node
	}
	offer, err := gpu.ParseOffer(node.Annotations[gpu.OfferAnnotation])
	if err != nil {
		return node
	}
	node = node.DeepCopy()
	delete(node.Annotations, reportedAnnotation)
	restore(offer, node.Status.Capacity, truth.Capacity)
	restore(offer, node.Status.Allocatable, truth.Allocatable)
	return node
}

// told reads what was kept with this version of the node.
func told(node *corev1.Node) (reported, bool) {
	text, ok := node.Annotations[reportedAnnotation]
	if !ok {
		return reported{}, false
	}
	var truth reported
	if err := json.Unmarshal([]byte(text), &truth); err != nil || truth.Version != node.ResourceVersion {
		return reported{}, false
	}
	return truth, true
}

// only is the part of the list that the offer names.
func only(offer gpu.Offer, list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range offer {
		if quantity, ok := list[name]; ok {
			out[name] = quantity
		}
	}
	return out
}

// restore puts the truth in the place of what the offer named.
func restore(offer gpu.Offer, list, truth corev1.ResourceList) {
	for name := range offer {
		if quantity, ok := truth[name]; ok {
			list[name] = quantity
			continue
		}
		delete(list, name)
	}
}
