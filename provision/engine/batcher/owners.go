package batcher

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

const (
	// sizeLifetime is how long the number of an owner's pods is kept, countLifetime for how
	// long is kept how many of them there are.
	sizeLifetime, countLifetime = time.Second, 50 * time.Millisecond
	// mostOwners is of how many owners of a batch the numbers are read, a request for each.
	mostOwners = 20
	// readTimeout is how long these requests may take, all together.
	readTimeout = 500 * time.Millisecond
)

// completeness is whether more pods of a batch's owners are going to come.
type completeness int

const (
	// unknown: the batch has a pod without an owner, or one whose number of pods is not known.
	unknown completeness = iota
	// incomplete: some owner does not have all its pods yet.
	incomplete
	// complete: all owners have all their pods.
	complete
)

// owner is the controller of pods. The zero value stands for pods without one, and for nodes.
type owner struct {
	namespace, apiVersion, kind, name string
	uid                               types.UID
}

func ownerOf(pod *corev1.Pod) owner {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return owner{}
	}
	return owner{pod.Namespace, ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

// Owners reads how many pods the owners of pods are going to have: ReplicaSets, StatefulSets and
// Jobs. Make it with NewOwners.
type Owners struct {
	clock clock.PassiveClock
	// cached lists the pods, live reads the owners, of which there is no cache.
	cached, live client.Reader

	// sizes are those of the owners of the last batch. Only the provisioner uses them.
	sizes map[types.UID]ownerSize
}

// ownerSize is how many pods an owner is going to have at once, and how many there are.
type ownerSize struct {
	desired, existing int
	// selector selects its pods.
	selector          *metav1.LabelSelector
	readAt, countedAt time.Time
}

// NewOwners returns what lists pods by cached and reads their owners by live.
func NewOwners(clk clock.PassiveClock, cached, live client.Reader) *Owners {
	return &Owners{clock: clk, cached: cached, live: live, sizes: map[types.UID]ownerSize{}}
}

// completeness is that of a batch with so many pods of each owner.
func (o *Owners) completeness(ctx context.Context, waiting map[owner]int) completeness {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	sizes, result := map[types.UID]ownerSize{}, complete
	for of, n := range waiting {
		s, known := o.sizes[of.uid]
		if known = known && o.clock.Since(s.readAt) < sizeLifetime; !known && len(waiting) <= mostOwners {
			s, known = o.read(ctx, of)
		}
		if known && n < s.desired && o.clock.Since(s.countedAt) >= countLifetime {
			s.existing, known = o.count(ctx, of, s.selector)
			s.countedAt = o.clock.Now()
		}
		switch {
		case !known:
			if result == complete {
				result = unknown
			}
			continue
		case max(n, s.existing) < s.desired:
			result = incomplete
		}
		sizes[of.uid] = s
	}
	o.sizes = sizes
	return result
}

// read returns how many pods an owner is going to have at once, and false where that is not
// known.
func (o *Owners) read(ctx context.Context, of owner) (ownerSize, bool) {
	set, stateful, job := &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &batchv1.Job{}
	kinds := map[[2]string]client.Object{
		{"apps/v1", "ReplicaSet"}: set, {"apps/v1", "StatefulSet"}: stateful, {"batch/v1", "Job"}: job,
	}
	object, ok := kinds[[2]string{of.apiVersion, of.kind}]
	if !ok || o.live.Get(ctx, types.NamespacedName{Namespace: of.namespace, Name: of.name}, object) != nil || object.GetUID() != of.uid {
		return ownerSize{}, false
	}
	s := ownerSize{readAt: o.clock.Now()}
	switch object {
	case set:
		s.desired, s.selector = int(ptr.Deref(set.Spec.Replicas, 1)), set.Spec.Selector
	case stateful:
		s.desired, s.selector = 1, stateful.Spec.Selector // The next one is created when this one is ready.
		if stateful.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
			s.desired = int(ptr.Deref(stateful.Spec.Replicas, 1))
		}
	case job:
		s.desired, s.selector = int(ptr.Deref(job.Spec.Parallelism, 1)), job.Spec.Selector
		if job.Spec.Completions != nil {
			s.desired = min(s.desired, int(*job.Spec.Completions-job.Status.Succeeded))
		}
	}
	return s, true
}

// count returns how many pods of an owner are there that are on a node, or that need one as far
// as the scheduler has found, and false where they cannot be listed.
func (o *Owners) count(ctx context.Context, of owner, selected *metav1.LabelSelector) (int, bool) {
	selector, err := metav1.LabelSelectorAsSelector(selected)
	if err != nil {
		return 0, false
	}
	pods := &corev1.PodList{}
	if err := o.cached.List(ctx, pods, client.InNamespace(of.namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, false
	}
	n := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ownerOf(pod).uid == of.uid && podutils.IsActive(pod) && (podutils.IsScheduled(pod) || podutils.FailedToSchedule(pod)) {
			n++
		}
	}
	return n, true
}
