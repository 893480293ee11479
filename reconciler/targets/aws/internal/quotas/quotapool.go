package quotas

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/state"
)

// pool is what a NodePool can ask of the vCPU quotas.
type pool struct {
	// name is the pool's, with the file and line that declare it.
	name string
	// cpus and gpus are its limits; nil where it has none.
	cpus, gpus *float64
	// gpu is the resource that gpus counts.
	gpu string
	// demands are by the names of the quotas' classes.
	demands map[string]demand
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
	p := pool{name: item.Key.Name, demands: map[string]demand{}}
	if at := item.Origin.String(); at != "" {
		p.name += " (" + at + ")"
	}
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

// advice says for which pools a quota is too small. A pool that may draw on
// several quotas is warned of only where all of them together are: Karpenter
// goes to the next when one is used up.
func advice(pools []pool, class string, limits map[string]limit) []string {
	var out []string
	for _, p := range pools {
		if _, draws := p.demands[class]; !draws {
			continue
		}
		if text := p.shortage(limits); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// shortage is what the pool cannot reach; empty where it can, and where a
// quota of its is unknown.
func (p pool) shortage(limits map[string]limit) string {
	var vcpus, gpus float64
	fits := false
	var smallest catalog.InstanceType
	perGPU := 0.0
	var codes []string
	for _, name := range slices.Sorted(maps.Keys(p.demands)) {
		have, known := limits[name]
		if !known {
			return ""
		}
		d := p.demands[name]
		vcpus += float64(have.vcpus)
		codes = append(codes, have.code)
		fits = fits || float64(d.smallest.VCPUs) <= float64(have.vcpus)
		if smallest.Name == "" || d.smallest.VCPUs < smallest.VCPUs {
			smallest = d.smallest
		}
		if d.perGPU > 0 {
			gpus += float64(have.vcpus) / d.perGPU
			if perGPU == 0 || d.perGPU < perGPU {
				perGPU = d.perGPU
			}
		}
	}
	allows, which := fmt.Sprintf("the quota allows %.0f", vcpus), "quota code "+codes[0]
	if len(codes) > 1 {
		allows, which = fmt.Sprintf("its quotas allow %.0f in all", vcpus), "quota codes "+strings.Join(codes, ", ")
	}
	if !fits {
		return fmt.Sprintf("NodePool %s can have no node: its smallest instance type %s has %d vCPUs, %s: request a quota increase (%s)",
			p.name, smallest.Name, smallest.VCPUs, allows, which)
	}
	needs, what := p.unreached(vcpus, gpus, perGPU)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("NodePool %s needs at least %.0f vCPUs to reach its limit of %s, %s: request a quota increase (%s) or lower the limit", p.name, needs, what, allows, which)
}

// unreached is which limit cannot be reached and how many vCPUs it takes. A
// pool grows until it meets its first limit, so one that can be met is enough.
func (p pool) unreached(vcpus, gpus, perGPU float64) (needs float64, what string) {
	if p.cpus != nil {
		if *p.cpus <= vcpus {
			return 0, ""
		}
		needs, what = *p.cpus, fmt.Sprintf("%.0f CPUs", *p.cpus)
	}
	if p.gpus != nil && perGPU > 0 {
		if *p.gpus <= gpus {
			return 0, ""
		}
		if forGPUs := *p.gpus * perGPU; what == "" || forGPUs < needs {
			needs, what = forGPUs, fmt.Sprintf("%.0f %s", *p.gpus, p.gpu)
		}
	}
	return needs, what
}
