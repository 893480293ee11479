package gpulint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// nodePool is what matters of a NodePool.
type nodePool struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Weight     int64          `json:"weight"`
		Limits     map[string]any `json:"limits"`
		Disruption struct {
			Budgets []budget `json:"budgets"`
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

// pool is a NodePool with what follows from its requirements.
type pool struct {
	nodePool
	item state.Item
	name string
	// types are the instance types of its nodes as far as the catalog goes, gpus
	// those of them with whole NVIDIA GPUs.
	types, gpus []catalog.InstanceType
	// profile serves it; false without one.
	profile gpu.Profile
	served  bool
}

func (c *checker) readPool(item state.Item) {
	p := &pool{item: item, name: item.Key.Name}
	if !read(item.Object, &p.nodePool) {
		return
	}
	for _, t := range c.types.Types() {
		if allows(p.requirements(), t) {
			p.types = append(p.types, t)
		}
	}
	p.gpus = withGPUs(p.types)
	p.profile, p.served = c.sharing.For(p.name)
	c.pools = append(c.pools, p)
}

// requirements are those of the pool's nodes, labels of the template among them.
func (p *pool) requirements() []catalog.Requirement {
	out := slices.Clone(p.Spec.Template.Spec.Requirements)
	for _, key := range sortedKeys(p.labels()) {
		out = append(out, catalog.Requirement{Key: key, Operator: "In", Values: []string{p.labels()[key]}})
	}
	return out
}

func (p *pool) labels() map[string]string                   { return p.Spec.Template.Metadata.Labels }
func (p *pool) taintList() []corev1.Taint                   { return p.Spec.Template.Spec.Taints }
func (p *pool) limit(name string) (n float64, written bool) { return amount(p.Spec.Limits[name]) }

// forGPUs reports whether the pool is there for NVIDIA GPUs, and not only free to
// give some to whom asks for them.
func (p *pool) forGPUs() bool {
	if len(p.gpus) == 0 {
		return false
	}
	_, annotated := p.Metadata.Annotations[v1alpha1.GPULimitAnnotation]
	ours := func(key string) bool { return strings.HasPrefix(key, "nvidia.com/") }
	return annotated || len(p.gpus) == len(p.types) || slices.Contains(p.profile.Pools, p.name) ||
		slices.ContainsFunc(sortedKeys(p.Spec.Limits), ours) ||
		slices.ContainsFunc(p.taintList(), func(t corev1.Taint) bool { return ours(t.Key) }) ||
		slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(r catalog.Requirement) bool { return strings.Contains(r.Key, "/instance-gpu-") })
}

// resource is what the pool's nodes offer GPUs as; false where the repository does
// not say.
func (p *pool) resource() (string, bool) {
	if !p.served {
		return "", false
	}
	return string(p.profile.Resource()), true
}

// called names the pool with its profile.
func (p *pool) called() string {
	if !p.served {
		return p.name
	}
	return fmt.Sprintf("%s (profile %s)", p.name, p.profile.Name)
}

// fewestGPUs is the least number of GPUs that a GPU node of the pool has.
func (p *pool) fewestGPUs() int {
	return slices.MinFunc(p.gpus, func(a, b catalog.InstanceType) int { return cmp.Compare(a.GPU.Count, b.GPU.Count) }).GPU.Count
}

// allows reports whether nodes of a type can meet the requirements.
func allows(requirements []catalog.Requirement, t catalog.InstanceType) bool {
	labels := t.Labels()
	return !slices.ContainsFunc(requirements, func(r catalog.Requirement) bool { return r.ByType() && !r.Met(labels) })
}

func withGPUs(types []catalog.InstanceType) []catalog.InstanceType {
	return slices.DeleteFunc(slices.Clone(types), func(t catalog.InstanceType) bool {
		return t.GPU.Manufacturer != "NVIDIA" || t.GPU.Count == 0
	})
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

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
