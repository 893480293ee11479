package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/poolwright/poolwright/provision/sandbox/aws"
)

// gpuResource is what the device plugin offers.
const gpuResource = "nvidia.com/gpu"

// witness marks the story's events as the API server and AWS show them. The
// kinds of our CRDs are watched once the controller has brought them.
func (s *story) witness(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(s.kube, 0)
	if err := s.see(factory.Core().V1().Pods().Informer(), s.pod, s.podGone); err != nil {
		return err
	}
	if err := s.see(factory.Core().V1().Nodes().Informer(), s.node, nil); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go s.watchCloud(ctx)
	return nil
}

// witnessCRDs watches the custom kinds.
func (s *story) witnessCRDs(ctx context.Context) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(s.dyn, 0)
	for kind, seen := range map[schema.GroupVersionResource]func(any){
		nodeClaims(): s.nodeClaim, nodePools(): s.nodePool, syncs(): s.sync,
	} {
		if err := s.see(factory.ForResource(kind).Informer(), seen, nil); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

func (s *story) see(informer cache.SharedIndexInformer, seen, gone func(any)) error {
	handler := cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, now any) { seen(now) }}
	if gone != nil {
		handler.DeleteFunc = gone
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

func (s *story) pod(o any) {
	pod := o.(*corev1.Pod)
	if pod.Name != podName || pod.Namespace != podNamespace {
		return
	}
	name, now := "pod/"+pod.Name, time.Now()
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			s.marks.mark(podPending, name, "asks for 1 GPU; no node offers one", now)
		}
	}
	if pod.Spec.NodeName != "" {
		s.marks.mark(podBound, name, "to "+pod.Spec.NodeName, now)
	}
	if pod.Status.Phase == corev1.PodRunning {
		s.marks.mark(podRunning, name, "on a node that did not exist", now)
	}
}

func (s *story) podGone(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok && pod.Name == podName && pod.Namespace == podNamespace {
		s.marks.mark(podDeleted, "pod/"+pod.Name, "the last one that needs a GPU", time.Now())
	}
}

func (s *story) node(o any) {
	node := o.(*corev1.Node)
	if node.Labels["karpenter.sh/nodepool"] != poolName {
		return
	}
	name, now := "node/"+node.Name, time.Now()
	s.marks.mark(nodeRegistered, name, fmt.Sprintf("%s in %s, without GPUs yet", node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelTopologyZone]), now)
	if gpus := node.Status.Allocatable[gpuResource]; !gpus.IsZero() {
		s.marks.mark(gpuAllocatable, name, gpuResource+": "+gpus.String()+", from the device plugin", now)
	}
	if node.Labels["karpenter.sh/initialized"] == "true" {
		s.marks.mark(nodeInitialized, name, "ready for Karpenter", now)
	}
}

func (s *story) nodeClaim(o any) {
	claim := o.(*unstructured.Unstructured)
	if claim.GetLabels()["karpenter.sh/nodepool"] == poolName {
		s.marks.mark(nodeClaimCreated, "nodeclaim/"+claim.GetName(), "by the embedded Karpenter", time.Now())
	}
}

func (s *story) nodePool(o any) {
	pool := o.(*unstructured.Unstructured)
	if pool.GetName() != poolName {
		return
	}
	now := time.Now()
	limit, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "limits", gpuResource)
	if fmt.Sprint(limit) == handEdit {
		s.edited.Store(true)
	} else if s.edited.Load() {
		s.marks.mark(driftCorrected, "nodepool/"+poolName, fmt.Sprintf("limits[%s] is %v again, as in Git", gpuResource, limit), now)
	}
	after, _, _ := unstructured.NestedString(pool.Object, "spec", "disruption", "consolidateAfter")
	if after == hurryWord {
		s.marks.mark(commitApplied, "nodepool/"+poolName, "consolidateAfter is "+hurryWord, now)
	}
}

func (s *story) sync(o any) {
	sync := o.(*unstructured.Unstructured)
	if sync.GetName() == syncName && conditionTrue(sync.Object, "Ready") {
		_, message := condition(sync.Object, "Ready")
		s.marks.mark(syncReady, "sync/"+syncName, message, time.Now())
	}
}

// watchCloud marks what AWS sees. Only GPU instances count: the story has no
// other.
func (s *story) watchCloud(ctx context.Context) {
	for e := range s.world.AWS.Watch(ctx) {
		object := "instance/" + e.Instance.ID
		switch e.Kind {
		case aws.Pending:
			s.marks.mark(fleetRequested, object, fmt.Sprintf("%s, %s, in %s", e.Instance.Type, e.Instance.CapacityType, e.Instance.Zone), s.fleetCall())
		case aws.ShuttingDown:
			s.marks.mark(instanceTerminated, object, "TerminateInstances; EC2 stops charging", e.Time)
		case aws.Running, aws.Terminated:
		}
	}
}

// fleetCall is when the newest CreateFleet arrived, before AWS took its time.
func (s *story) fleetCall() time.Time {
	at := time.Now()
	for _, c := range s.world.AWS.Calls() {
		if c.Operation == "CreateFleet" && !c.Dry {
			at = c.Time
		}
	}
	return at
}

// zero waits until nothing of the pool is left.
func (s *story) zero(ctx context.Context) error {
	if _, err := s.marks.await(ctx, instanceTerminated); err != nil {
		return err
	}
	err := s.retry(ctx, "waiting for zero", func() error {
		var left []string
		claims, err := s.dyn.Resource(nodeClaims()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, c := range claims.Items {
			left = append(left, "nodeclaim/"+c.GetName())
		}
		if n := s.gpuNodes(ctx); n != 0 {
			left = append(left, fmt.Sprintf("%d GPU nodes", n))
		}
		for _, i := range s.world.AWS.Instances() {
			if i.State != aws.Terminated {
				left = append(left, "instance/"+i.ID)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("still there: %s", strings.Join(left, ", "))
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.marks.mark(worldZero, "nodepool/"+poolName, "no NodeClaim, no node, no instance: $0/h", time.Now())
	return nil
}

// gpuNodes counts the pool's nodes; -1 where they cannot be listed.
func (s *story) gpuNodes(ctx context.Context) int {
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool"})
	if err != nil {
		return -1
	}
	return len(nodes.Items)
}
