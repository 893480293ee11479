package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// offer is an instance type in one market that a vCPU quota limits.
type offer struct {
	of     catalog.InstanceType
	class  string
	labels map[string]string
}

func offersOf(types *catalog.Catalog) []offer {
	var out []offer
	for _, t := range types.Types() {
		for market, spot := range map[string]bool{"on-demand": false, "spot": true} {
			class, ok := classOf(t.Name, spot)
			if !ok || !slices.Contains(t.UsageClasses, market) {
				continue
			}
			labels := typeLabels(t)
			labels["karpenter.sh/capacity-type"] = market
			out = append(out, offer{of: t, class: class.name, labels: labels})
		}
	}
	return out
}

// requirement is one line of a NodePool's requirements.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// readPool reads what matters of a NodePool. What it cannot read it leaves out:
// the API server, and lint, say what is wrong with it.
func readPool(item state.Item, offers []offer) pool {
	var object struct {
		Spec struct {
			Limits   map[string]any `json:"limits"`
			Template struct {
				Metadata struct {
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
				Spec struct {
					Requirements []requirement `json:"requirements"`
				} `json:"spec"`
			} `json:"template"`
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
	requirements := object.Spec.Template.Spec.Requirements
	for k, v := range object.Spec.Template.Metadata.Labels {
		requirements = append(requirements, requirement{Key: k, Operator: "In", Values: []string{v}})
	}
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

// typeLabels are the labels of an instance type that requirements choose by and
// that decide about its quota.
func typeLabels(t catalog.InstanceType) map[string]string {
	const aws = "karpenter.k8s.aws/instance-"
	out := map[string]string{
		"node.kubernetes.io/instance-type": t.Name,
		"kubernetes.io/arch":               "amd64",
		aws + "family":                     t.Family(),
		aws + "size":                       t.Size(),
		aws + "cpu":                        strconv.Itoa(t.VCPUs),
		aws + "memory":                     strconv.Itoa(t.MemoryMiB),
		aws + "cpu-manufacturer":           strings.ToLower(t.Processor.Manufacturer),
	}
	if t.Hypervisor != "" {
		out[aws+"hypervisor"] = t.Hypervisor
	}
	if slices.Contains(t.Processor.Architectures, "arm64") {
		out["kubernetes.io/arch"] = "arm64"
	}
	if m := typeForm.FindStringSubmatch(t.Name); m != nil {
		out[aws+"category"], out[aws+"generation"] = m[1], m[2]
	}
	if t.HasGPU() {
		out[aws+"gpu-name"] = strings.ReplaceAll(strings.ToLower(t.GPU.Name), " ", "-")
		out[aws+"gpu-manufacturer"] = strings.ToLower(t.GPU.Manufacturer)
		out[aws+"gpu-count"] = strconv.Itoa(t.GPU.Count)
		out[aws+"gpu-memory"] = strconv.Itoa(t.GPU.MemoryMiB)
	}
	return out
}

// chooses reports whether typeLabels tells all of a key: where a type has no
// such label, it has none at all.
func chooses(key string) bool {
	for _, suffix := range []string{
		"family", "size", "cpu", "memory", "cpu-manufacturer", "hypervisor", "category", "generation", "gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory",
	} {
		if key == "karpenter.k8s.aws/instance-"+suffix {
			return true
		}
	}
	return key == "node.kubernetes.io/instance-type" || key == "kubernetes.io/arch" || key == "karpenter.sh/capacity-type"
}

// allowed reports whether an instance type with these labels meets the
// requirements; those by other labels are passed over.
func allowed(requirements []requirement, labels map[string]string) bool {
	for _, r := range requirements {
		if !chooses(r.Key) {
			continue
		}
		value, has := labels[r.Key]
		ok := true
		switch r.Operator {
		case "In":
			ok = has && slices.Contains(r.Values, value)
		case "NotIn":
			ok = !has || !slices.Contains(r.Values, value)
		case "Exists":
			ok = has
		case "DoesNotExist":
			ok = !has
		case "Gt", "Lt", "Gte", "Lte":
			ok = has && compares(r, value)
		}
		if !ok {
			return false
		}
	}
	return true
}

func compares(r requirement, value string) bool {
	if len(r.Values) != 1 {
		return false
	}
	have, errHave := strconv.ParseInt(value, 10, 64)
	bound, errBound := strconv.ParseInt(r.Values[0], 10, 64)
	if errHave != nil || errBound != nil {
		return false
	}
	switch r.Operator {
	case "Gt":
		return have > bound
	case "Lt":
		return have < bound
	case "Gte":
		return have >= bound
	}
	return have <= bound
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

// shortage says what the pool cannot reach; empty where it can, and where a
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
	allows, ask := fmt.Sprintf("the quota allows %.0f", vcpus), "quota code "+codes[0]
	if len(codes) > 1 {
		allows, ask = fmt.Sprintf("its quotas allow %.0f in all", vcpus), "quota codes "+strings.Join(codes, ", ")
	}
	if !fits {
		return fmt.Sprintf("Warning: NodePool %s can have no node: its smallest instance type %s has %d vCPUs, %s: ask AWS for more (%s)",
			p.name, smallest.Name, smallest.VCPUs, allows, ask)
	}
	needs, what := p.unreached(vcpus, gpus, perGPU)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("Warning: NodePool %s needs at least %.0f vCPUs to reach its limit of %s, %s: ask AWS for more (%s) or lower the limit", p.name, needs, what, allows, ask)
}

// unreached says which limit cannot be reached and how many vCPUs it takes. A
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
