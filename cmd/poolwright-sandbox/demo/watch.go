package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const (
	// gpuResource is what the device plugin advertises.
	gpuResource = "nvidia.com/gpu"
	// poolLabel is on Karpenter's claims and nodes, and a tag of its instances.
	poolLabel = "karpenter.sh/nodepool"
)

// watch marks the run's events as the API server and AWS report them. The
// kinds of our CRDs are watched once the controller has brought them.
func (s *Run) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(s.kube, 0)
	s.nodes = factory.Core().V1().Nodes().Lister()
	if err := onChange(factory.Core().V1().Pods().Informer(), s.pod); err != nil {
		return err
	}
	if err := onChange(factory.Core().V1().Nodes().Informer(), s.node); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go s.watchCloud(ctx)
	return nil
}

// watchCRDs watches the custom kinds, until ctx ends.
func (s *Run) watchCRDs(ctx context.Context) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(s.dyn, 0)
	for kind, handle := range map[schema.GroupVersionResource]func(any){nodeClaims(): s.nodeClaim, syncs(): s.sync} {
		if err := onChange(factory.ForResource(kind).Informer(), handle); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

func onChange(informer cache.SharedIndexInformer, handle func(any)) error {
	handler := cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, now any) { handle(now) }}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

// of are the workloads that an object of a pool concerns.
func (s *Run) of(pool, name string) (workloads []*workload) {
	for _, r := range s.watched.all() {
		if r.pool == pool && r.claims(name) {
			workloads = append(workloads, r)
		}
	}
	return workloads
}

func (s *Run) pod(o any) {
	pod := o.(*corev1.Pod)
	name, now := "pod/"+pod.Name, time.Now()
	for _, r := range s.watched.all() {
		if !r.owns(pod) || !r.claims(pod.Name) {
			continue
		}
		for _, c := range pod.Status.Conditions {
			// A pod that waits for its volume does not wait for a node yet.
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && !strings.Contains(c.Message, "PersistentVolumeClaim") {
				r.marks.mark(podPending, name, "requests "+r.requests+"; no node has it", now)
			}
		}
		if pod.Spec.NodeName != "" {
			r.marks.mark(podBound, name, "to "+pod.Spec.NodeName, now)
		}
		if pod.Status.Phase == corev1.PodRunning {
			// Where it is not known yet, nothing is reported of its age.
			node, _ := s.nodes.Get(pod.Spec.NodeName)
			r.marks.mark(podRunning, name, younger(node, pod), now)
		}
	}
}

func (s *Run) node(o any) {
	node := o.(*corev1.Node)
	name, now := "node/"+node.Name, time.Now()
	for _, r := range s.of(node.Labels[poolLabel], node.Name) {
		without := ""
		if r.needsGPU {
			without = ", without GPUs yet"
		}
		r.marks.mark(nodeRegistered, name, fmt.Sprintf("%s in %s%s", node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelTopologyZone], without), now)
		if gpus := node.Status.Allocatable[gpuResource]; !gpus.IsZero() {
			r.marks.mark(gpuAllocatable, name, gpuResource+": "+gpus.String()+", from the device plugin", now)
		}
		if node.Labels["karpenter.sh/initialized"] == "true" {
			r.marks.mark(nodeInitialized, name, "ready for Karpenter", now)
		}
	}
}

func (s *Run) nodeClaim(o any) {
	claim := o.(*unstructured.Unstructured)
	for _, r := range s.of(claim.GetLabels()[poolLabel], claim.GetName()) {
		r.marks.mark(nodeClaimCreated, "nodeclaim/"+claim.GetName(), "for a node of "+r.pool, time.Now())
	}
}

func (s *Run) sync(o any) {
	sync := o.(*unstructured.Unstructured)
	if is, _, message := ready(sync); is && sync.GetName() == s.syncName() {
		s.marks.mark(syncReady, "sync/"+sync.GetName(), message, time.Now())
	}
}

// watchCloud marks what AWS reports of Karpenter's instances.
func (s *Run) watchCloud(ctx context.Context) {
	for e := range s.environment.AWS.Watch(ctx) {
		object := "instance/" + e.Instance.ID
		for _, r := range s.of(e.Instance.Tags[poolLabel], e.Instance.ID) {
			switch e.Kind {
			case sandboxaws.Pending:
				r.marks.mark(fleetRequested, object, fmt.Sprintf("%s, %s, in %s", e.Instance.Type, e.Instance.CapacityType, e.Instance.Zone), fleetCall(s.environment.AWS.Calls(), e.Instance))
			case sandboxaws.ShuttingDown:
				r.marks.mark(instanceTerminated, object, s.endOf(e.Instance.ID)+"; EC2 stops charging", e.Time)
			case sandboxaws.Running, sandboxaws.Terminated:
			}
		}
	}
}

// endOf is who ended an instance.
func (s *Run) endOf(id string) string {
	for _, c := range s.environment.AWS.Calls() {
		if c.Operation == "TerminateInstances" && strings.Contains(c.Params, id) {
			return c.Operation
		}
	}
	return "EC2 took it back"
}

// fleetCall is when the request arrived that launched an instance, before AWS took
// its time.
func fleetCall(calls []sandboxaws.Call, launched sandboxaws.Instance) time.Time {
	for _, c := range calls {
		if slices.Contains(c.Launched, launched.ID) {
			return c.Time
		}
	}
	return launched.Launched
}

// younger reports whether a node is younger than the pod that runs on it.
func younger(node *corev1.Node, pod *corev1.Pod) string {
	if node != nil && pod.CreationTimestamp.Before(&node.CreationTimestamp) {
		return "on a node that did not exist when it was created"
	}
	return "on " + pod.Spec.NodeName
}
