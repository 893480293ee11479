package quotas

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/state"
)

// pool is what a NodePool can ask of the vCPU quotas.
type pool struct {
	// name is the pool's, origin the file and line that declare it, "" where there is none.
	name, origin string
	// cpus and gpus are its limits; nil where it has none.
	cpus, gpus *float64
	// gpu is the resource that gpus counts.
	gpu string
	// demands are by the names of the quotas' classes.
	demands map[string]demand
}

// String is the pool's name with the place that declares it.
func (p pool) String() string {
	if p.origin == "" {
		return p.name
	}
	return p.name + " (" + p.origin + ")"
}

// demand is what the instance types of one class ask for.
type demand struct {
	// smallest is the type with the fewest vCPUs.
	smallest catalog.InstanceType
	// perGPU is the fewest vCPUs that come with one GPU; 0 without GPUs.
	perGPU float64
}

// capacityTypeLabel is what a node is bought as, on-demand or spot.
const capacityTypeLabel = "karpenter.sh/capacity-type"

// quotaOffering is an instance type in one market that a vCPU quota limits.
type quotaOffering struct {
	of     catalog.InstanceType
	class  string
	labels map[string]string
}

func quotaOfferings(types *catalog.Catalog) []quotaOffering {
	var out []quotaOffering
	for _, t := range types.Types() {
		for market, spot := range map[string]bool{"on-demand": false, "spot": true} {
			class, ok := classOf(t.Name, spot)
			if !ok || !slices.Contains(t.UsageClasses, market) {
				continue
			}
			labels := t.Labels()
			labels[capacityTypeLabel] = market
			out = append(out, quotaOffering{of: t, class: class.name, labels: labels})
		}
	}
	return out
}

// readPool reads what matters of a NodePool. What it cannot read it leaves out:
// the API server, and lint, report what is wrong with it.
func readPool(item state.Item, offers []quotaOffering) pool {
	var object struct {
		Spec struct {
			Limits map[string]any `json:"limits"`
		} `json:"spec"`
	}
	p := pool{name: item.Key.Name, origin: item.Origin.String(), demands: map[string]demand{}}
	raw, err := json.Marshal(item.Object)
	if err != nil || json.Unmarshal(raw, &object) != nil {
		return p
	}
	p.cpus = amount(object.Spec.Limits["cpu"])
	for _, gpu := range []string{"nvidia.com/gpu", "amd.com/gpu"} {
		if n := amount(object.Spec.Limits[gpu]); n != nil && p.gpus == nil {
			p.gpus, p.gpu = n, gpu
		}
	}
	requirements := catalog.Requirements(item.Object)
	for _, o := range offers {
		if allowed(requirements, o.labels) {
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

// allowed reports whether an instance type with these labels, its market among
// them, meets the requirements; those by other labels are passed over.
func allowed(requirements []catalog.Requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r catalog.Requirement) bool {
		return (r.ByType() || r.Key == capacityTypeLabel) && !r.Met(labels)
	})
}
