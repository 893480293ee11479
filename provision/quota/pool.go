package quota

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/catalog"
)

// Pool is what a NodePool can draw on the vCPU quotas.
type Pool struct {
	// Name is the pool's.
	Name string
	// origin is the file and line that declare it, "" where there is none.
	origin string
	// cpus, gpus and nodes are its limits; nil where it has none.
	cpus, gpus, nodes *float64
	// replicas is how many nodes a static pool has; nil for any other.
	replicas *float64
	// gpu is the resource that gpus counts.
	gpu string
	// demands are by the names of the quotas' classes.
	demands map[string]demand
	// requirements are those of its nodes.
	requirements []catalog.Requirement
}

// Reserves reports whether the pool allows reserved capacity of an instance type. Which reservations it may
// use is its EC2NodeClass's matter.
func (p Pool) Reserves(t catalog.InstanceType) bool {
	labels := t.Labels()
	labels[capacityTypeLabel] = "reserved"
	return allowed(p.requirements, labels)
}

// String is the pool's name with the place that declares it.
func (p Pool) String() string {
	if p.origin == "" {
		return p.Name
	}
	return p.Name + " (" + p.origin + ")"
}

// demand is what the instance types of one class draw.
type demand struct {
	// smallest is the type with the fewest vCPUs.
	smallest catalog.InstanceType
	// perGPU is the fewest vCPUs that come with one GPU; 0 without GPUs.
	perGPU float64
}

// capacityTypeLabel is what a node is bought as, on-demand or spot.
const capacityTypeLabel = "karpenter.sh/capacity-type"

// Reader reads NodePools by the instance types of a catalog.
type Reader struct{ offerings []typeOffering }

// typeOffering is an instance type, on-demand or spot, that a vCPU quota limits.
type typeOffering struct {
	of     catalog.InstanceType
	class  string
	labels map[string]string
}

// NewReader makes a Reader. It takes milliseconds: use one for several pools.
func NewReader(types *catalog.Catalog) Reader {
	var out []typeOffering
	for _, t := range types.Types() {
		for capacity, spot := range map[string]bool{"on-demand": false, "spot": true} {
			class, ok := ClassOf(t.Name, spot)
			if !ok || !slices.Contains(t.UsageClasses, capacity) {
				continue
			}
			labels := t.Labels()
			labels[capacityTypeLabel] = capacity
			out = append(out, typeOffering{of: t, class: class.Name, labels: labels})
		}
	}
	return Reader{out}
}

// Pool reads what matters of a NodePool; origin is the file and line that declare it, "" where
// there is none. What it cannot read it leaves out: the API server, and lint, report what is
// wrong with it.
func (r Reader) Pool(name, origin string, nodePool map[string]any) Pool {
	var object struct {
		Spec struct {
			Limits   map[string]any `json:"limits"`
			Replicas any            `json:"replicas"`
		} `json:"spec"`
	}
	p := Pool{Name: name, origin: origin, demands: map[string]demand{}}
	raw, err := json.Marshal(nodePool)
	if err != nil || json.Unmarshal(raw, &object) != nil {
		return p
	}
	p.cpus, p.nodes, p.replicas = amount(object.Spec.Limits["cpu"]), amount(object.Spec.Limits["nodes"]), amount(object.Spec.Replicas)
	for _, gpu := range []string{"nvidia.com/gpu", "amd.com/gpu"} {
		if n := amount(object.Spec.Limits[gpu]); n != nil && p.gpus == nil {
			p.gpus, p.gpu = n, gpu
		}
	}
	p.requirements = catalog.Requirements(nodePool)
	for _, o := range r.offerings {
		if allowed(p.requirements, o.labels) {
			p.demands[o.class] = p.demands[o.class].with(o.of, p.gpu)
		}
	}
	return p
}

// amount reads a quantity, as JSON has it.
func amount(v any) *float64 {
	if v == nil {
		return nil
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return nil
	}
	n := q.AsApproximateFloat64()
	return &n
}

// with adds an instance type to a demand.
func (d demand) with(t catalog.InstanceType, gpu string) demand {
	if d.smallest.Name == "" || t.VCPUs < d.smallest.VCPUs || t.VCPUs == d.smallest.VCPUs && t.Name < d.smallest.Name {
		d.smallest = t
	}
	if t.GPU.Count > 0 && gpu == strings.ToLower(t.GPU.Manufacturer)+".com/gpu" {
		if each := float64(t.VCPUs) / float64(t.GPU.Count); d.perGPU == 0 || each < d.perGPU {
			d.perGPU = each
		}
	}
	return d
}

// allowed reports whether an instance type with these labels, its capacity type among
// them, meets the requirements; those by other labels are passed over.
func allowed(requirements []catalog.Requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r catalog.Requirement) bool {
		return (r.ByType() || r.Key == capacityTypeLabel) && !r.Met(labels)
	})
}

// Classes are the names of the quotas that the pool can draw on, sorted.
func (p Pool) Classes() []string { return slices.Sorted(maps.Keys(p.demands)) }
