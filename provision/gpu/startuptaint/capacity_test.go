package startuptaint_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

// running is an initialized node whose plugin advertises that many GPUs just now.
func running(allocatable string, has corev1.ResourceList) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{karpv1.NodeInitializedLabelKey: "true"}}}
	if allocatable != "" {
		node.Annotations = map[string]string{gpu.AllocatableAnnotation: allocatable}
	}
	has = has.DeepCopy()
	has[corev1.ResourceCPU] = list(corev1.ResourceCPU, 8)[corev1.ResourceCPU]
	node.Status.Capacity, node.Status.Allocatable = has, has.DeepCopy()
	return node
}

func TestANodeHasItsRecordedCapacityInTheCache(t *testing.T) {
	starting := running("nvidia.com/gpu=40", list(gpu.Resource, 0))
	starting.Labels = nil
	for name, c := range map[string]struct {
		node *corev1.Node
		want corev1.ResourceList
	}{
		"while its plugin restarts":             {running("nvidia.com/gpu=40", list(gpu.Resource, 0)), list(gpu.Resource, 40)},
		"before the kubelet names it":           {running("nvidia.com/gpu=40,nvidia.com/gpu.shared=0", list()), list(gpu.Resource, 40)},
		"less, while its configuration changes": {running("nvidia.com/gpu=10", list(gpu.Resource, 40)), list(gpu.Resource, 10)},
		"none of a name that it advertises":     {running("nvidia.com/gpu=0,nvidia.com/gpu.shared=8", list(gpu.Resource, 4)), list(gpu.Resource, 0, gpu.SharedResource, 8)},
		"what it has, as nobody vouches":        {running("", list(gpu.Resource, 4)), list(gpu.Resource, 4)},
		"what it has while it starts":           {starting, list(gpu.Resource, 0)},
		"what it has beside nonsense":           {running("nvidia.com/gpu=lots", list(gpu.Resource, 4)), list(gpu.Resource, 4)},
		"no memory, whoever claims it":          {running("memory=4", list(gpu.Resource, 4)), list(gpu.Resource, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			show := startuptaint.WithRecordedCapacity(funcr.New(func(string, string) {}, funcr.Options{}))
			before, capacity := c.node.DeepCopy(), c.node.Status.Capacity
			show(c.node)
			c.want[corev1.ResourceCPU] = list(corev1.ResourceCPU, 8)[corev1.ResourceCPU]
			if diff := cmp.Diff(c.want, c.node.Status.Allocatable); diff != "" {
				t.Error("allocatable:", diff)
			}
			if diff := cmp.Diff(c.want, c.node.Status.Capacity); diff != "" {
				t.Error("capacity:", diff)
			}
			if diff := cmp.Diff(before.Status.Capacity, capacity); diff != "" {
				t.Error("the map that somebody else may hold changed:", diff)
			}
			once := c.node.DeepCopy()
			show(c.node)
			if diff := cmp.Diff(once, c.node); diff != "" {
				t.Error("twice is not once:", diff)
			}
			before.Status, once.Status = corev1.NodeStatus{}, corev1.NodeStatus{}
			if diff := cmp.Diff(before, once); diff != "" {
				t.Error("more than the status changed:", diff)
			}
		})
	}
}

func TestNonsenseIsLoggedOnceForEachNode(t *testing.T) {
	var lines []string
	show := startuptaint.WithRecordedCapacity(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for _, name := range []string{"one", "one", "two"} {
		node := running("lots", list())
		node.Name = name
		show(node)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], `"Node"="one"`) || !strings.Contains(lines[1], `"Node"="two"`) {
		t.Errorf("said %q", lines)
	}
}
