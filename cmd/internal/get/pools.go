package get

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Pool is a NodePool with its nodes.
type Pool struct {
	Name string `json:"name"`
	// Total is that of its nodes.
	Total `json:",inline"`
	// Limits are those of spec.limits, sorted by resource, that of GPUs first.
	Limits []Limit `json:"limits,omitempty"`
	// NodeClass is the name of its EC2NodeClass.
	NodeClass string      `json:"nodeClass,omitempty"`
	Created   metav1.Time `json:"created"`
	// State is Ready, NotReady, BackOff or Terminating.
	State string `json:"state"`
	// Reason and Message are why it is in this state.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Limit is one limit of a NodePool, both numbers as Kubernetes writes quantities.
type Limit struct {
	Resource string `json:"resource"`
	Used     string `json:"used"`
	Limit    string `json:"limit"`
}

// pools are the NodePools by name, with the sums of their nodes.
func (x *indexed) pools(nodes []Node) []Pool {
	out := []Pool{}
	for i := range x.Pools {
		p := x.pool(&x.Pools[i])
		p.Total = x.total(nodes, p.Name)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// pool is a NodePool without nodes.
func (x *indexed) pool(from *karpv1.NodePool) Pool {
	p := Pool{Name: from.Name, Created: from.CreationTimestamp, Limits: limitsOf(from), State: "Ready"}
	if ref := from.Spec.Template.Spec.NodeClassRef; ref != nil {
		p.NodeClass = ref.Name
	}
	until, held := x.backoff[from.Name]
	if !from.DeletionTimestamp.IsZero() {
		p.State = "Terminating"
		return p
	}
	for _, c := range from.Status.Conditions {
		if c.Type == "Ready" && c.Status != metav1.ConditionTrue {
			p.State, p.Reason, p.Message = "NotReady", sanitize.Text(c.Reason), sanitize.Text(c.Message)
			return p
		}
	}
	if held {
		p.State, p.Reason = "BackOff", "GPUsNotAllocatable"
		p.Message = "no node with GPUs is launched until " + until.UTC().Format(time.RFC3339)
	}
	return p
}

func limitsOf(pool *karpv1.NodePool) []Limit {
	var out []Limit
	for _, name := range slices.Sorted(maps.Keys(pool.Spec.Limits)) {
		limit, used := pool.Spec.Limits[name], pool.Status.Resources[name]
		out = append(out, Limit{Resource: string(name), Used: used.String(), Limit: limit.String()})
	}
	slices.SortStableFunc(out, func(a, b Limit) int { return cmp.Compare(ofGPUs(b.Resource), ofGPUs(a.Resource)) })
	return out
}

// ofGPUs is 1 for the resource by which GPUs are limited, and 0 for any other.
func ofGPUs(resource string) int {
	if corev1.ResourceName(resource) == gpu.Resource {
		return 1
	}
	return 0
}

// String is the limit with its use, such as 2/4 gpu.
func (l Limit) String() string {
	return l.Used + "/" + l.Limit + " " + strings.TrimPrefix(l.Resource, "nvidia.com/")
}
