package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/gpu/migprofile"
)

// Resources is how many of each GPU resource a node advertises. A resource with 0 must
// not be advertised.
type Resources map[corev1.ResourceName]int64

func isResource(name corev1.ResourceName) bool {
	return name == Resource || name == SharedResource || migprofile.IsResource(name)
}

// Add adds the GPU resources in a list, such as a node's.
func (o Resources) Add(list corev1.ResourceList) {
	for name, quantity := range list {
		if isResource(name) {
			o[name] += quantity.Value()
		}
	}
}

// Any reports whether one of the numbers is above 0.
func (o Resources) Any() bool {
	for _, n := range o {
		if n > 0 {
			return true
		}
	}
	return false
}

// Differs describes how a node's resources differ from these, as "nvidia.com/gpu: 4
// of 40"; empty when they agree. Resources that these do not name are passed
// over.
func (o Resources) Differs(has corev1.ResourceList) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		quantity := has[name]
		if got := quantity.Value(); got != o[name] {
			out = append(out, fmt.Sprintf("%s: %d of %d", name, got, o[name]))
		}
	}
	return strings.Join(out, ", ")
}

// Min is, for each resource of either, the lesser number; one that
// either does not name counts as 0 in it.
func (o Resources) Min(other Resources) Resources {
	out := Resources{}
	for name := range o {
		out[name] = min(o[name], other[name])
	}
	for name := range other {
		out[name] = min(o[name], other[name])
	}
	return out
}

// ApplyTo writes the numbers into a copy of a node's resources.
func (o Resources) ApplyTo(list corev1.ResourceList) corev1.ResourceList {
	out := list.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, n := range o {
		if _, named := out[name]; named || n != 0 {
			out[name] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}

// String writes them as the value of AllocatableAnnotation: resources with their
// numbers, sorted by name and separated by commas, "nvidia.com/gpu=40".
// Resources with 0 are written too.
func (o Resources) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		out = append(out, string(name)+"="+strconv.FormatInt(o[name], 10))
	}
	return strings.Join(out, ",")
}

// maxAllocatable bounds what an annotation may claim of one node: 16 GPUs of 1,000
// shares.
const maxAllocatable = 16_000

// ParseResources reads what String wrote. Anything else is an error, and so is a
// resource that is not NVIDIA's or a number that no node can have.
func ParseResources(text string) (Resources, error) {
	out := Resources{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(part, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		resourceName := corev1.ResourceName(name)
		if !ok || err != nil || n < 0 || n > maxAllocatable || !isResource(resourceName) {
			return nil, fmt.Errorf("reading the allocatable GPUs of a node: %q is not a resource and its number, such as %s=4", part, Resource)
		}
		if _, twice := out[resourceName]; twice {
			return nil, fmt.Errorf("reading the allocatable GPUs of a node: %s is named twice", name)
		}
		out[resourceName] = n
	}
	return out, nil
}

// Requests adds up what a pod's containers request of the GPU resources: every resource
// of NVIDIA's, MIG devices too.
func Requests(spec corev1.PodSpec) Resources {
	out := Resources{}
	add := func(list corev1.ResourceList, into Resources) {
		for name, quantity := range list {
			if strings.HasPrefix(string(name), "nvidia.com/") && quantity.Value() > 0 {
				into[name] += quantity.Value()
			}
		}
	}
	for _, c := range spec.Containers {
		limits := c.Resources.Limits
		if limits == nil {
			limits = c.Resources.Requests
		}
		add(limits, out)
	}
	// A sidecar runs on beside the containers, and beside the init containers behind it.
	first, sidecars := Resources{}, Resources{}
	for _, c := range spec.InitContainers {
		limits := c.Resources.Limits
		if limits == nil {
			limits = c.Resources.Requests
		}
		beside := sidecars
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(limits, out)
		} else {
			beside = maps.Clone(sidecars)
		}
		add(limits, beside)
		for name, n := range beside {
			first[name] = max(first[name], n)
		}
	}
	for name, n := range first {
		out[name] = max(out[name], n)
	}
	return out
}
