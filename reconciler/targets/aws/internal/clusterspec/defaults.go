package clusterspec

import (
	"bytes"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Default fills in what a declaration leaves out, as its fields' comments
// have it. Fields that are not declared stay so.
func Default(in v1alpha1.ClusterSpec) v1alpha1.ClusterSpec {
	spec := *in.DeepCopy()
	names := iampolicy.NamesOf(spec.Name, spec.Region)
	if d := spec.Discovery; d != nil {
		orphan(&d.ManagementPolicy)
		fill(&d.Key, "karpenter.sh/discovery")
		fill(&d.Value, spec.Name)
	}
	if r := spec.NodeRole; r != nil {
		orphan(&r.ManagementPolicy)
		if len(r.Policies) == 0 {
			r.Policies = []v1alpha1.ManagedPolicyName{
				"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore",
			}
		}
		if !r.Adopt {
			fill(&r.PermissionsBoundary, names.Boundary)
		}
	}
	if q := spec.InterruptionQueue; q != nil {
		orphan(&q.ManagementPolicy)
		fill(&q.Name, spec.Name)
		if q.Retention == nil {
			q.Retention = &metav1.Duration{Duration: 5 * time.Minute}
		}
	}
	if c := spec.ControllerRole; c != nil {
		fill(&c.Name, names.Role)
		fill(&c.Identity, v1alpha1.IdentityPod)
		fill(&c.Namespace, "poolwright-system")
		fill(&c.ServiceAccount, "poolwright")
	}
	return spec
}

func orphan(p *v1alpha1.ManagementPolicy) { fill(&p.DeletionPolicy, v1alpha1.AWSDeletionPolicyOrphan) }

func fill[S ~string](field *S, value S) {
	if *field == "" {
		*field = value
	}
}

// Decode reads a Cluster's spec; a field that it does not have is an error.
func Decode(item state.Item) (v1alpha1.ClusterSpec, error) {
	raw, err := json.Marshal(item.Object)
	if err != nil {
		return v1alpha1.ClusterSpec{}, err
	}
	var object v1alpha1.Cluster
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err = d.Decode(&object)
	return object.Spec, err
}

// NeedsAWS reports whether a declaration requires any resource in AWS.
func NeedsAWS(s v1alpha1.ClusterSpec) bool {
	return s.Discovery != nil || s.NodeRole != nil || s.InterruptionQueue != nil || s.Logging != nil || s.ControllerRole != nil ||
		len(s.ManagedNodeGroups) > 0 || s.Version != "" || len(s.Addons) > 0
}

// Embedded reports whether the engine of a declaration runs inside Poolwright.
func Embedded(s v1alpha1.ClusterSpec) bool {
	return s.Engine.Mode == "" || s.Engine.Mode == v1alpha1.EngineEmbedded
}
