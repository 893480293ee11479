package readiness

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/karpenter-provider-aws/pkg/providers/nvidiadra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

const (
	// driverPoll is how soon a node of the DRA driver is read again that starts, and the oldest that what was read of the driver may
	// be then: one read is for all nodes.
	driverPoll = 5 * time.Second
	// publishedPoll is the same for other nodes, and for whoever reports the pools.
	publishedPoll = time.Minute
)

// driverReader reads what NVIDIA's DRA driver has published, and its pods, for all nodes at once. It reads past caches:
// ResourceSlices are not watched, since an API server without them must not end this process, and the cache has only objects
// that bear gpu.ConfigLabel.
type driverReader struct {
	live  client.Reader
	clock clock.PassiveClock

	mu   sync.Mutex
	last *driverView
}

// driverView is what one pass has read.
type driverView struct {
	at time.Time
	// unknown is why ResourceSlices cannot be read; empty where they can.
	unknown string
	// slices are the driver's ResourceSlices by the name of their node.
	slices map[string][]*resourcev1.ResourceSlice
	// sets are the driver's DaemonSets by configuration, pods its pods; both nil until a node needs them.
	sets map[string]*appsv1.DaemonSet
	pods map[driverPod]*corev1.Pod
}

// driverPod is where a pod of the driver is.
type driverPod struct{ config, node string }

// check sets a node's health.
func (r *driverReader) check(ctx context.Context, s *nodeView, maxAge time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.clock.Since(r.last.at) >= maxAge {
		view, err := r.read(ctx)
		if err != nil {
			return err
		}
		r.last = view
	}
	if s.unknown = r.last.unknown; s.unknown != "" {
		return nil
	}
	published, differs := r.last.published(s.node), s.health.Expected.Differs(s.node.Status.Allocatable)
	switch {
	case published < GPUs(s.node):
		if err := r.readPods(ctx); err != nil {
			return err
		}
		r.last.explain(s, published)
	case differs != "":
		s.health.Reason, s.health.Message = Mismatch, "the DRA driver has published the GPUs, and the node advertises them a second time: "+differs
	default:
		s.health.Ready = true
	}
	return nil
}

// read lists the driver's ResourceSlices. That it may not, or that the API server has none, is no error: all else is reported then.
func (r *driverReader) read(ctx context.Context) (*driverView, error) {
	out := &driverView{at: r.clock.Now(), slices: map[string][]*resourcev1.ResourceSlice{}}
	list := &resourcev1.ResourceSliceList{}
	err := r.live.List(ctx, list, client.MatchingFields{resourcev1.ResourceSliceSelectorDriver: nvidiadra.DriverName})
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		out.unknown = "the API server does not serve ResourceSlices of resource.k8s.io/v1"
	case apierrors.IsForbidden(err):
		out.unknown = "ResourceSlices may not be listed: " + cut(err.Error())
	case err != nil:
		return nil, fmt.Errorf("listing the ResourceSlices of the DRA driver: %w", err)
	}
	for i := range list.Items {
		if slice := &list.Items[i]; slice.Spec.NodeName != nil {
			out.slices[*slice.Spec.NodeName] = append(out.slices[*slice.Spec.NodeName], slice)
		}
	}
	return out, nil
}

// readPods lists the driver's DaemonSets and their pods, unless this pass has.
func (r *driverReader) readPods(ctx context.Context) error {
	if r.last.sets != nil {
		return nil
	}
	list := &appsv1.DaemonSetList{}
	if err := r.live.List(ctx, list, client.InNamespace(gpu.PluginNamespace), client.HasLabels{gpu.DRAConfigLabel}); err != nil {
		return fmt.Errorf("listing the DaemonSets of the DRA driver: %w", err)
	}
	sets, pods := map[string]*appsv1.DaemonSet{}, map[driverPod]*corev1.Pod{}
	for i := range list.Items {
		set := &list.Items[i]
		if set.DeletionTimestamp != nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil {
			return fmt.Errorf("reading which pods are of DaemonSet %q: %w", set.Name, err)
		}
		found := &corev1.PodList{}
		if err := r.live.List(ctx, found, client.InNamespace(gpu.PluginNamespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("listing the pods of the DRA driver: %w", err)
		}
		config := set.Labels[gpu.DRAConfigLabel]
		sets[config] = set
		for i := range found.Items {
			if pod := &found.Items[i]; pod.DeletionTimestamp == nil && !ended(pod) {
				pods[driverPod{config, nodeOf(pod)}] = pod
			}
		}
	}
	r.last.sets, r.last.pods = sets, pods
	return nil
}

// published is how many GPUs of a node can be allocated: those of each pool's newest generation, once all its slices are there,
// as kube-scheduler counts.
func (v *driverView) published(node *corev1.Node) int {
	type devicePool struct {
		generation, missing int64
		gpus                int
	}
	pools := map[string]devicePool{}
	for _, slice := range v.slices[node.Name] {
		of := slice.Spec.Pool
		pool, known := pools[of.Name]
		switch {
		case !ownedBy(slice, node) || known && of.Generation < pool.generation:
			continue
		case !known || of.Generation > pool.generation:
			pool = devicePool{generation: of.Generation, missing: of.ResourceSliceCount}
		}
		pool.missing--
		for i := range slice.Spec.Devices {
			if isGPU(&slice.Spec.Devices[i]) {
				pool.gpus++
			}
		}
		pools[of.Name] = pool
	}
	n := 0
	for _, pool := range pools {
		if pool.missing <= 0 {
			n += pool.gpus
		}
	}
	return n
}

// ownedBy reports whether a slice is of this node, and not of an earlier one of its name.
func ownedBy(slice *resourcev1.ResourceSlice, node *corev1.Node) bool {
	for _, owner := range slice.OwnerReferences {
		if owner.Kind == "Node" {
			return owner.UID == node.UID
		}
	}
	return true
}

// isGPU reports whether a device is a whole GPU: the driver publishes MIG devices and others, too.
func isGPU(device *resourcev1.Device) bool {
	for _, name := range []resourcev1.QualifiedName{"type", nvidiadra.DriverName + "/type"} {
		if value := device.Attributes[name].StringValue; value != nil {
			return *value == "gpu"
		}
	}
	return false
}

// explain is why a node's GPUs are not published, as far as the driver's DaemonSet and its pod show.
func (v *driverView) explain(s *nodeView, published int) {
	s.set, s.plugin = v.sets[s.config.Name], v.pods[driverPod{s.config.Name, s.node.Name}]
	switch h := &s.health; {
	case s.set == nil:
		s.unapplied = fmt.Sprintf("there is no DaemonSet of the DRA driver for configuration %s: has the Sync that declares the DevicePlugin been applied?", s.config.Name)
		h.Reason, h.Message = NotApplied, s.unapplied
	case !selects(s.set, s.node):
		s.unapplied = fmt.Sprintf("DaemonSet %s does not select the node: the Sync has not applied it (drift: Report? another Sync?)", s.set.Name)
		h.Reason, h.Message = NotApplied, s.unapplied
	case s.plugin == nil:
		h.Reason, h.Message = NoPluginPod, "no pod of the DRA driver is on the node"
		if taints := untolerated(s.node, s.set); taints != "" {
			h.Message += ": the DevicePlugin's tolerations do not cover " + taints
		}
	case !ready(s.plugin):
		h.Reason, h.Message = failing(s.plugin)
	default:
		h.Reason, h.Message = crashed(s.plugin)
		h.Reason = cmp.Or(h.Reason, NotPublished)
		h.Message = cmp.Or(h.Message, fmt.Sprintf("the DRA driver has published %d of %d GPUs", published, GPUs(s.node)))
	}
}

// byDriver reports whether the DRA driver serves the node.
func (s *nodeView) byDriver() bool { return s.config.Strategy == gpu.StrategyDRA }

// lacksDevices reports whether a node of the DRA driver is not as it should be.
func (s *nodeView) lacksDevices() bool {
	return s.unknown == "" && (!s.health.Ready || !initialized(s.node) && !nodeReady(s.node))
}
