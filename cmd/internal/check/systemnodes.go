package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/internal/plural"
)

// systemNodes checks that the replicas of the controller fit onto the nodes on which they may run,
// by what they request, and by what they may use.
func (c *checker) systemNodes(ctx context.Context) []Result {
	deployment, err := c.deployment(ctx)
	if err != nil {
		return c.unreadable(err)
	}
	var nodes corev1.NodeList
	if err := c.Kube.List(ctx, &nodes); err != nil {
		return c.unreadable(err)
	}
	p, err := placementOf(deployment, nodes.Items, func(node string) (corev1.ResourceList, error) { return c.used(ctx, node) })
	if err != nil {
		return c.unreadable(err)
	}
	return one(p.result())
}

// used is what the pods on a node request, but those of the controller: they are counted as what they
// are to be. The pods of one node are read at a time, since a cluster has many.
func (c *checker) used(ctx context.Context, node string) (corev1.ResourceList, error) {
	var pods corev1.PodList
	if err := c.Kube.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, err
	}
	return usedBy(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Namespace == c.Namespace && p.Labels["app.kubernetes.io/name"] == installation.Deployment
	})), nil
}

// CheckPlacement checks that the replicas of an installation fit onto nodes on which nothing else runs.
func CheckPlacement(nodes []corev1.Node) (Result, error) {
	d, err := embedded(installation.DefaultNamespace)
	if err != nil {
		return Result{}, err
	}
	p, err := placementOf(d, nodes, func(string) (corev1.ResourceList, error) { return nil, nil })
	if err != nil {
		return Result{}, err
	}
	r := p.result()
	r.Name = "system-nodes"
	return r, nil
}

// deployment is the controller's: the one that is installed, or would be.
func (c *checker) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	var live appsv1.Deployment
	err := c.Kube.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: installation.Deployment}, &live)
	if err == nil {
		return &live, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Deployment %s: %w", installation.Deployment, err)
	}
	return embedded(c.Namespace)
}

// embedded is the Deployment of an installation by this program.
func embedded(namespace string) (*appsv1.Deployment, error) {
	items, err := installation.Manifests{Namespace: namespace}.Objects()
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item.Key.Kind == "Deployment" {
			var d appsv1.Deployment
			return &d, runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &d)
		}
	}
	return nil, errors.New("the embedded installation has no Deployment")
}

// placement is onto which nodes the replicas of a Deployment can be scheduled.
type placement struct {
	replicas int
	// requests and limit are a replica's: what it requests of CPU and memory, and how much memory
	// it may use; zero where it has no limit.
	requests corev1.ResourceList
	limit    resource.Quantity
	// allowed is how many nodes the pod's selectors allow, whatever else is in the way: a topology
	// spread counts all of these.
	allowed int
	// fits are the names of the nodes onto which one replica fits, twice those of them onto which
	// two do.
	fits, twice []string
	// small are the nodes of fits that have less memory than the limit.
	small []string
	// refused is why each other node that is allowed does not take one, by node, sorted.
	refused []string
	// unread is true where not all were read, since enough were found.
	unread bool
	// spreads is true where no two replicas may be on one node while there is another.
	spreads bool
}

// requestedOn returns what is requested on a node already.
type requestedOn func(node string) (corev1.ResourceList, error)

// readNodes is of how many nodes the pods are read although enough nodes were found.
const readNodes = 50

func placementOf(d *appsv1.Deployment, nodes []corev1.Node, used requestedOn) (placement, error) {
	pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
	p := placement{replicas: 1, requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}), spreads: spreadsHosts(pod)}
	if d.Spec.Replicas != nil {
		p.replicas = int(*d.Spec.Replicas)
	}
	p.limit = resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceMemory]
	for i := range nodes {
		if err := p.add(&nodes[i], pod, used); err != nil {
			return placement{}, err
		}
	}
	slices.Sort(p.refused)
	return p, nil
}

// spreadsHosts reports whether a topology spread keeps replicas apart by their nodes.
func spreadsHosts(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.TopologyKey == corev1.LabelHostname && c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

// usedBy adds up what pods that have not ended request, their number included.
func usedBy(pods []corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		add := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		add[corev1.ResourcePods] = resource.MustParse("1")
		for name, quantity := range add {
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	return sum
}

// add places a replica onto one node, if it can be.
func (p *placement) add(node *corev1.Node, pod *corev1.Pod, used requestedOn) error {
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !match {
		return nil
	}
	p.allowed++
	if p.allowed > readNodes && len(p.fits)-len(p.small) >= p.replicas {
		p.unread = true
		return nil
	}
	if why := unfit(node, pod); why != "" {
		p.refused = append(p.refused, node.Name+": "+why)
		return nil
	}
	taken, err := used(node.Name)
	if err != nil {
		return err
	}
	if why := p.shortage(node, taken, 1); why != "" {
		p.refused = append(p.refused, node.Name+": "+why)
		return nil
	}
	p.fits = append(p.fits, node.Name)
	if p.shortage(node, taken, 2) == "" {
		p.twice = append(p.twice, node.Name)
	}
	if memory := node.Status.Allocatable[corev1.ResourceMemory]; p.limit.Cmp(memory) > 0 {
		p.small = append(p.small, fmt.Sprintf("%s has %s", node.Name, mebibytes(memory)))
	}
	return nil
}

// unfit is why no pod of the controller comes to a node, whatever capacity that has.
func unfit(node *corev1.Node, pod *corev1.Pod) string {
	if arch := node.Labels[corev1.LabelArchStable]; arch != "" && arch != "amd64" && arch != "arm64" {
		return "the image is not built for " + arch
	}
	if node.Spec.Unschedulable {
		return "it is cordoned"
	}
	taint, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false)
	if untolerated {
		return "taint " + taint.ToString()
	}
	if c := nodeutils.GetCondition(node, corev1.NodeReady); c.Type != "" && c.Status != corev1.ConditionTrue {
		return "it is not ready"
	}
	return ""
}

// shortage is what a node has too little of for so many replicas, or empty.
func (p *placement) shortage(node *corev1.Node, used corev1.ResourceList, replicas int64) string {
	var lacks []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		need := p.requests[name]
		if name == corev1.ResourcePods {
			need = resource.MustParse("1")
		}
		need.Mul(replicas)
		free := node.Status.Allocatable[name].DeepCopy()
		free.Sub(used[name])
		if free.Cmp(need) < 0 {
			lacks = append(lacks, fmt.Sprintf("%s of %s %s are free", amount(name, free), amount(name, need), name))
		}
	}
	return strings.Join(lacks, ", ")
}

func amount(name corev1.ResourceName, q resource.Quantity) string {
	if name == corev1.ResourceMemory {
		return mebibytes(q)
	}
	return q.String()
}

func mebibytes(q resource.Quantity) string { return fmt.Sprintf("%dMi", q.Value()>>20) }

// scheduled is how many replicas are scheduled.
func (p placement) scheduled() int {
	switch {
	case p.spreads && p.allowed > 1:
		return min(p.replicas, len(p.fits))
	case len(p.twice) > 0:
		return p.replicas
	}
	return min(p.replicas, len(p.fits))
}

func (p placement) result() Result {
	const remedy = "run two Linux nodes that Karpenter does not provide, of amd64 or arm64, in a managed node group with this much free and without taints but CriticalAddonsOnly"
	cpu, memory := p.requests[corev1.ResourceCPU], p.requests[corev1.ResourceMemory]
	each := fmt.Sprintf("%s CPU and %s of memory", cpu.String(), mebibytes(memory))
	switch n := p.scheduled(); {
	case p.allowed == 0:
		return failed(remedy, "there is no node on which the controller may run: it needs %s for each of %d replicas", each, p.replicas)
	case n < p.replicas:
		return failed(remedy, "%d of %d replicas can be scheduled, each of which requests %s: %s", n, p.replicas, each, some(p.refused))
	case len(p.fits) < p.replicas:
		return warning("run a second system node, in another zone", "all %d replicas are on node %s: nothing takes over while it is replaced", p.replicas, p.fits[0])
	case len(p.fits)-len(p.small) < p.replicas:
		return warning("take system nodes with more memory; docs/limits.md, \"What it takes\", has what clusters use of it, and what is lost with less",
			"%d replicas fit by what they request (%s), but each may use %s: %s", p.replicas, each, mebibytes(p.limit), some(p.small))
	}
	least := ""
	if p.unread {
		least = "at least "
	}
	return ok("%s%d of %d nodes have %s free, for %d replicas", least, len(p.fits), p.allowed, each, p.replicas)
}

// some names the first five of a list.
func some(names []string) string {
	if len(names) == 0 {
		return "the others need nodes of their own"
	}
	return plural.FirstOf(names, 5, "; ")
}
