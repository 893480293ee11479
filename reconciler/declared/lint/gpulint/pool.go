package gpulint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// resources of GPUs by their names in objects.
const (
	wholeGPU = string(gpu.Resource)
	shared   = string(gpu.SharedResource)
)

// nodePool is what matters of a NodePool.
type nodePool struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Weight     int64          `json:"weight"`
		Limits     map[string]any `json:"limits"`
		Replicas   any            `json:"replicas"`
		Disruption struct {
			ConsolidateAfter any      `json:"consolidateAfter"`
			Budgets          []budget `json:"budgets"`
		} `json:"disruption"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				Requirements []catalog.Requirement `json:"requirements"`
				Taints       []corev1.Taint        `json:"taints"`
				Class        struct {
					Name string `json:"name"`
				} `json:"nodeClassRef"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// budget is one disruption budget.
type budget struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons"`
	Schedule string   `json:"schedule"`
}

// reasonEmpty is Karpenter's reason for the disruption of empty nodes.
const reasonEmpty = "Empty"

// forEmpty reports whether the budget holds for empty nodes at any time.
func (b budget) forEmpty() bool {
	return b.Schedule == "" && (b.Reasons == nil || slices.Contains(b.Reasons, reasonEmpty))
}

// pool is a NodePool with what follows from its requirements.
type pool struct {
	nodePool
	item state.Item
	name string
	// types are the instance types of its nodes as far as the catalog goes, gpus
	// those of them with whole NVIDIA GPUs.
	types, gpus []instanceType
	// known is false where the pool names types that may have GPUs and that the
	// catalog does not hold.
	known bool
	// configuration serves it; false without one.
	config gpu.PluginConfig
	served bool
	// dra is true where the DRA driver serves it; served is false then.
	dra bool
}

func (r *repository) readPool(item state.Item) {
	p := &pool{item: item, name: item.Key.Name}
	if !read(item.Object, &p.nodePool) {
		r.partial = true
		return
	}
	requirements := p.requirements()
	for _, t := range r.instanceTypes {
		if !t.satisfies(requirements) {
			continue
		}
		p.types = append(p.types, t)
		if t.GPU.Manufacturer == "NVIDIA" && t.GPU.Count > 0 {
			p.gpus = append(p.gpus, t)
		}
	}
	p.known = r.hasAllTypes(requirements)
	p.config, p.served = r.sharing.ConfigForPool(p.name)
	_, p.dra = r.sharing.DRAForPool(p.name)
	r.pools = append(r.pools, p)
}

// requirements are those of the pool's nodes, labels of the template among them.
func (p *pool) requirements() []catalog.Requirement {
	out := slices.Clone(p.Spec.Template.Spec.Requirements)
	for _, key := range slices.Sorted(maps.Keys(p.labels())) {
		out = append(out, catalog.Requirement{Key: key, Operator: "In", Values: []string{p.labels()[key]}})
	}
	return out
}

func (p *pool) labels() map[string]string                   { return p.Spec.Template.Metadata.Labels }
func (p *pool) taintList() []corev1.Taint                   { return p.Spec.Template.Spec.Taints }
func (p *pool) limit(name string) (n float64, written bool) { return amount(p.Spec.Limits[name]) }

// forGPUs reports whether the pool is there for NVIDIA GPUs, and not only free to give
// some to pods that request them.
func (p *pool) forGPUs() bool {
	if len(p.gpus) == 0 {
		return false
	}
	_, annotated := p.Metadata.Annotations[v1alpha1.GPULimitAnnotation]
	ours := func(key string) bool { return strings.HasPrefix(key, "nvidia.com/") }
	return annotated || p.onlyGPUs() || slices.Contains(p.config.Pools, p.name) ||
		slices.ContainsFunc(slices.Sorted(maps.Keys(p.Spec.Limits)), ours) ||
		slices.ContainsFunc(p.taintList(), func(t corev1.Taint) bool { return ours(t.Key) }) ||
		slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(r catalog.Requirement) bool { return strings.Contains(r.Key, "/instance-gpu-") })
}

// called names the pool with its configuration.
func (p *pool) called() string {
	if !p.served {
		return p.name
	}
	return fmt.Sprintf("%s (configuration %s)", p.name, p.config.Name)
}

// fewestGPUs is the least number of GPUs that a GPU node of the pool has.
func (p *pool) fewestGPUs() int {
	return slices.MinFunc(p.gpus, func(a, b instanceType) int { return cmp.Compare(a.GPU.Count, b.GPU.Count) }).GPU.Count
}

// onlyGPUs reports whether every node of the pool has GPUs, of whatever make.
func (p *pool) onlyGPUs() bool {
	return p.known && len(p.gpus) > 0 && !slices.ContainsFunc(p.types, func(t instanceType) bool { return !t.HasGPU() })
}

// withoutGPUs reports whether surely no node of the pool has an NVIDIA GPU.
func (p *pool) withoutGPUs() bool { return p.known && len(p.types) > 0 && len(p.gpus) == 0 }

// hasAllTypes reports whether the catalog holds all types with GPUs, whose families
// begin with g or p, that the requirements name.
func (r *repository) hasAllTypes(requirements []catalog.Requirement) bool {
	for _, req := range requirements {
		if req.Operator != "In" || !req.ByType() || strings.HasSuffix(req.Key, "/arch") {
			continue
		}
		if strings.HasSuffix(req.Key, "instance-type") || strings.HasSuffix(req.Key, "-family") || strings.HasSuffix(req.Key, "-category") {
			for _, v := range req.Values {
				one := catalog.Requirement{Key: req.Key, Operator: "In", Values: []string{v}}
				if strings.IndexAny(v, "gp") == 0 && !slices.ContainsFunc(r.instanceTypes, func(t instanceType) bool { return one.Met(t.labels) }) {
					return false
				}
			}
		}
	}
	return true
}

// instanceType is a type with its labels, which are read often. Pools share it, since a pool
// may have all types, and a repository thousands of pools.
type instanceType struct {
	*catalog.InstanceType
	labels map[string]string
}

func instanceTypes(types *catalog.Catalog) []instanceType {
	var out []instanceType
	for _, t := range types.Types() {
		out = append(out, instanceType{&t, t.Labels()})
	}
	return out
}

// satisfies reports whether nodes of the type can meet the requirements.
func (t instanceType) satisfies(requirements []catalog.Requirement) bool {
	return !slices.ContainsFunc(requirements, func(r catalog.Requirement) bool { return r.ByType() && !r.Met(t.labels) })
}

// amount reads a quantity as JSON has it.
func amount(v any) (float64, bool) {
	switch v.(type) {
	case string, int64, float64, int:
	default:
		return 0, false
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return 0, false
	}
	return q.AsApproximateFloat64(), true
}

// number writes an amount without needless digits.
func number(n float64) string {
	out := fmt.Sprintf("%.2f", n)
	return strings.TrimSuffix(strings.TrimRight(out, "0"), ".")
}

// counted writes a number and its noun.
func counted(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}
