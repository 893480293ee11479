package offline

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// codeControllerDoesNotFit is of node groups that cannot hold the controller.
const codeControllerDoesNotFit finding.Code = "ControllerDoesNotFit"

// systemNodes warns of a Cluster whose managed node groups cannot hold the replicas of the
// controller. Groups that it does not declare are not known, and neither is what else runs on
// those that it does.
func systemNodes(d declared.Declared) ([]state.Problem, error) {
	const path = "spec.managedNodeGroups"
	var out []state.Problem
	for _, item := range d.Set.Items() {
		if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Cluster" {
			continue
		}
		var c v1alpha1.Cluster
		// What the schema refuses is reported elsewhere.
		if runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &c) != nil {
			continue
		}
		nodes, known, err := nodesOf(c.Spec.ManagedNodeGroups)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		placed, err := check.CheckPlacement(nodes)
		if err != nil {
			return nil, err
		}
		if placed.Status != check.Failed {
			continue
		}
		found := state.NewProblem(lint.Position(d.Documents(), item, path), finding.New(codeControllerDoesNotFit,
			"the controller does not fit onto the node groups that are declared: %s: %s", finding.NewFact("reason", placed.Message), placed.Remedy))
		found.Object, found.Field, found.Detail, found.Message = item.Key, path, found.Message, item.Key.String()+": "+path+": "+found.Message
		out = append(out, found)
	}
	return out, nil
}

// nodesOf are the nodes that node groups have, or false where one does not declare its instance types or its size. A
// group without nodes needs no types.
func nodesOf(groups []v1alpha1.ManagedNodeGroup) ([]corev1.Node, bool, error) {
	types, err := catalog.Load()
	if err != nil {
		return nil, false, err
	}
	var out []corev1.Node
	for _, g := range groups {
		size, declared := sizeOf(g)
		if declared && size == 0 {
			continue
		}
		largest, known := largestType(types, g.InstanceTypes)
		if !known || !declared {
			return nil, false, nil
		}
		for i := range min(size, 2) {
			out = append(out, nodeOf(g, largest, i))
		}
	}
	return out, len(groups) > 0, nil
}

// sizeOf is how many nodes a group has, or false where it declares neither. Who leaves out desiredSize may have an
// autoscaler set it, up to maxSize; beside desiredSize, maxSize is not counted.
func sizeOf(g v1alpha1.ManagedNodeGroup) (size int, declared bool) {
	if g.MinSize == nil && g.DesiredSize == nil {
		return 0, false
	}
	sizes := []*int32{g.MinSize, g.DesiredSize}
	if g.DesiredSize == nil {
		sizes = append(sizes, g.MaxSize)
	}
	for _, n := range sizes {
		if n != nil {
			size = max(size, int(*n))
		}
	}
	return size, true
}

// largestType is the type with the most memory, or false where one is not in the catalog.
func largestType(types *catalog.Catalog, names []string) (catalog.InstanceType, bool) {
	var found []catalog.InstanceType
	for _, name := range names {
		t, known := types.Lookup(name)
		if !known {
			return t, false
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		return catalog.InstanceType{}, false
	}
	return slices.MaxFunc(found, func(a, b catalog.InstanceType) int {
		return cmp.Or(a.MemoryMiB-b.MemoryMiB, a.VCPUs-b.VCPUs)
	}), true
}

// nodeOf is a node of a group, as EKS's images reserve for the kubelet and the system: 255 MiB
// and 11 MiB for each pod, 100 MiB at which pods are evicted, and of CPU 60m, 10m, 5m and 5m of the first four
// cores and 2.5m of each other.
func nodeOf(g v1alpha1.ManagedNodeGroup, t catalog.InstanceType, number int) corev1.Node {
	pods := t.Network.Cards[t.Network.DefaultCard]*(t.Network.IPv4PerInterface-1) + 2
	memory := max(0, t.MemoryMiB-t.MemoryMiB*75/1000-255-11*pods-100)
	name := fmt.Sprintf("%s of group %s (%d)", t.Name, g.Name, number+1)
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelOSStable: "linux", corev1.LabelHostname: name, corev1.LabelArchStable: architecture(t),
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(t.VCPUs)*1000-reservedCPU(t.VCPUs), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(memory)<<20, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(int64(pods), resource.DecimalSI),
		}},
	}
	if g.Taints != nil {
		for _, taint := range *g.Taints {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)})
		}
	}
	return node
}

// architecture is the type's, as Kubernetes names it.
func architecture(t catalog.InstanceType) string {
	if slices.Contains(t.Processor.Architectures, "arm64") {
		return "arm64"
	}
	return "amd64"
}

// reservedCPU is in millicores.
func reservedCPU(cores int) int64 {
	reserved := 0.0
	for core := range cores {
		switch core {
		case 0:
			reserved += 60
		case 1:
			reserved += 10
		case 2, 3:
			reserved += 5
		default:
			reserved += 2.5
		}
	}
	return int64(reserved)
}
