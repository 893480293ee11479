package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// fleet is a provision.Fleet that can be looked up in.
type fleet struct {
	provision.Fleet
	clock   moment
	pools   map[string]*karpv1.NodePool
	classes map[string]*awsv1.EC2NodeClass
	// claims are by pool, oldest first; nodes by provider id; named and bound by the
	// name of the node.
	claims map[string][]*karpv1.NodeClaim
	nodes  map[string]*corev1.Node
	named  map[string]*corev1.Node
	bound  map[string][]*corev1.Pod
	// offerings are what each pool can buy, overlays applied; see offeringCatalog.
	offerings map[string]poolOfferings
	// whole is Karpenter's view of all nodes, rest that without those that are gone,
	// each made when first needed.
	whole, rest *state.Cluster
	gone        map[string]bool
}

// moment is a clock that stands still.
type moment struct {
	clock.RealClock
	at time.Time
}

// Now is the moment.
func (m moment) Now() time.Time { return m.at }

// Since counts to the moment.
func (m moment) Since(t time.Time) time.Duration { return m.at.Sub(t) }

func newFleet(from provision.Fleet, unknown unknowns) *fleet {
	f := &fleet{
		Fleet: from, clock: moment{at: from.Now},
		pools: map[string]*karpv1.NodePool{}, classes: map[string]*awsv1.EC2NodeClass{},
		claims: map[string][]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}, named: map[string]*corev1.Node{}, bound: map[string][]*corev1.Pod{},
	}
	for _, class := range from.NodeClasses {
		if bad := badAlias(class); bad != "" {
			unknown.add("EC2NodeClass %s: the AMI alias %q is not a family and a version with one @ between them, so the replacement of its nodes cannot be predicted.", class.Name, bad)
			continue
		}
		f.classes[class.Name] = class
	}
	f.Overlays = nil
	for _, overlay := range from.Overlays {
		if !usablePrice(overlay) {
			unknown.add("NodeOverlay %s: its price is no number of at most %.0e, so that the overlay is left out.", overlay.Name, mostPrice)
			continue
		}
		f.Overlays = append(f.Overlays, overlay)
	}
	for _, pool := range from.NodePools {
		if pool.DeletionTimestamp.IsZero() && pool.Spec.Template.Spec.NodeClassRef != nil {
			f.pools[pool.Name] = pool
		}
	}
	f.DaemonSets = slices.DeleteFunc(newest(from.DaemonSets), func(set *appsv1.DaemonSet) bool {
		err := workload.Validate(set.Spec.Template.ObjectMeta, set.Spec.Template.Spec)
		if err != nil {
			unknown.add("DaemonSet %s/%s: its pods are left out, since the API server would refuse them: %v.", set.Namespace, set.Name, err)
		}
		return err != nil
	})
	f.index()
	return f
}

// newest drops those of which another of the same name follows.
func newest(sets []*appsv1.DaemonSet) []*appsv1.DaemonSet {
	at := map[types.NamespacedName]int{}
	for i, set := range sets {
		at[types.NamespacedName{Namespace: cmp.Or(set.Namespace, metav1.NamespaceDefault), Name: set.Name}] = i
	}
	out := slices.Clone(sets[:0])
	for i, set := range sets {
		if at[types.NamespacedName{Namespace: cmp.Or(set.Namespace, metav1.NamespaceDefault), Name: set.Name}] == i {
			out = append(out, set)
		}
	}
	return out
}

// index sorts what was observed.
func (f *fleet) index() {
	for _, claim := range f.NodeClaims {
		name := claim.Labels[karpv1.NodePoolLabelKey]
		f.claims[name] = append(f.claims[name], claim)
	}
	for _, list := range f.claims {
		slices.SortFunc(list, oldestFirst)
	}
	for _, node := range f.Nodes {
		f.named[node.Name] = node
		if node.Spec.ProviderID != "" {
			f.nodes[node.Spec.ProviderID] = node
		}
	}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName != "" {
			f.bound[pod.Spec.NodeName] = append(f.bound[pod.Spec.NodeName], pod)
		}
	}
}

// observe takes over what is there from another fleet, except the pods that wait.
func (f *fleet) observe(from *fleet) {
	f.claims, f.nodes, f.named, f.bound = from.claims, from.nodes, from.named, from.bound
	f.NodeClaims, f.Nodes, f.Budgets = from.NodeClaims, from.Nodes, from.Budgets
	if f.Pods == nil {
		f.Pods = from.Pods
	}
	pods := slices.DeleteFunc(slices.Clone(from.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" {
			pods = append(pods, pod)
		}
	}
	f.Pods = pods
	if f.DaemonSets == nil {
		f.DaemonSets = from.DaemonSets
	}
	if f.RuntimeClasses == nil {
		f.RuntimeClasses = from.RuntimeClasses
	}
	// What AWS answered is in a class's status, which no declaration has: it holds
	// while the question is the same.
	for name, class := range f.classes {
		if live, ok := from.classes[name]; ok && len(class.Status.Subnets)+len(class.Status.AMIs)+len(class.Status.SecurityGroups) == 0 {
			class = class.DeepCopy()
			class.Status = *live.Status.DeepCopy()
			f.classes[name] = class
		}
	}
}

// podsByWorkload are the fleet's workloads with those of the pods that are theirs.
func (f *fleet) podsByWorkload(pods []*corev1.Pod, unknown unknowns) map[workload.Ref]workload.Pods {
	runtimes := map[string]*nodev1.RuntimeClass{}
	for _, class := range f.RuntimeClasses {
		runtimes[class.Name] = class
	}
	out := workload.PodsByWorkload(f.Workloads, pods)
	for of, c := range out {
		if name := c.Pod.Spec.RuntimeClassName; name != nil && runtimes[*name] != nil {
			c.Pod = workload.WithRuntimeClass(c.Pod, runtimes[*name])
		} else if name != nil {
			unknown.add("RuntimeClass %s is not known here: what it requires of the nodes of its pods is left out.", *name)
		}
		if err := workload.Validate(c.Pod.ObjectMeta, c.Pod.Spec); err != nil {
			unknown.add("%s %s/%s: its pods are left out, since the API server would refuse them: %v.", of.Kind, of.Namespace, of.Name, err)
			c.Invalid = true
		}
		out[of] = c
	}
	return out
}

// node is the NodeClaim's Node, nil while there is none.
func (f *fleet) node(claim *karpv1.NodeClaim) *corev1.Node {
	if claim.Status.ProviderID == "" {
		return nil
	}
	return f.nodes[claim.Status.ProviderID]
}

// class is the pool's, nil when it is not there.
func (f *fleet) class(pool *karpv1.NodePool) *awsv1.EC2NodeClass {
	return f.classes[pool.Spec.Template.Spec.NodeClassRef.Name]
}

func oldestFirst(a, b *karpv1.NodeClaim) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// badAlias is the alias on which the provider would end the process, or nothing.
func badAlias(class *awsv1.EC2NodeClass) string {
	for _, term := range class.Spec.AMISelectorTerms {
		if term.Alias == "" {
			continue
		}
		name, version, ok := strings.Cut(term.Alias, "@")
		known := slices.ContainsFunc([]string{
			awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket,
			awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025,
		}, func(family string) bool { return strings.ToLower(family) == name })
		if !ok || !known || strings.Contains(version, "@") {
			return term.Alias
		}
	}
	return ""
}
