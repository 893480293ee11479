package aws

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// desiredState is what Desired read, for the verbs after it.
type desiredState struct {
	resource.Declaration
	// object is the Cluster object's name; empty where there is none.
	object string
	items  state.Set
	// problem is the first in what is declared now; the rest is then of
	// what was declared before, if anything was.
	problem string
	// fields are which field of the Cluster requires a thing, as a path;
	// a thing that several fields require is not in it. Most require none.
	fields func() map[state.Key]string
	// reserved are the things that only bootstrap writes.
	reserved func() map[state.Key]bool
}

// table lists the kinds of things that there are.
type table map[kindOf]resource.Kind

// read turns a declaration into the desired state; schema finds what its schema does. With
// any problem, it holds no more than names.
func (t table) read(declared state.Set, bootstrap bool, schema func(state.Item, v1alpha1.ClusterSpec, error) []state.Problem) (desiredState, []state.Problem) {
	clusters, pools := declarations(declared)
	none := desiredState{Declaration: resource.Declaration{Pools: pools}}
	if len(clusters) == 0 {
		return none, nil
	}
	item := clusters[0]
	none.object = item.Key.Name
	if problems := otherClusters(clusters); len(problems) > 0 {
		return none, problems
	}
	spec, err := clusterspec.Decode(item)
	problems := schema(item, spec, err)
	if err == nil {
		problems = append(slices.Clip(problems), clusterspec.Problems(item, spec)...)
	}
	if err != nil || len(problems) > 0 {
		return none, problems
	}
	spec = clusterspec.Default(spec)
	s := resource.Declaration{
		Scope: resource.Scope{Partition: iampolicy.PartitionOf(spec.Region), Region: spec.Region, Account: spec.Account, Cluster: spec.Name},
		Spec:  spec, Origin: item.Origin, Pools: pools, Bootstrap: bootstrap,
	}
	out := desiredState{Declaration: s, object: item.Key.Name}
	items, problems := t.items(s)
	if len(problems) > 0 {
		return none, problems
	}
	out.items = state.NewSet(items...)
	out.fields = sync.OnceValue(func() map[state.Key]string { return t.fields(s) })
	out.reserved = sync.OnceValue(func() map[state.Key]bool { return t.reserved(s) })
	return out, nil
}

// declarations are the Clusters and NodePools that are declared, these with their limits in whole GPUs.
func declarations(declared state.Set) (clusters, pools []state.Item) {
	pools = deviceplugin.PhysicalGPUs(declared.Items())
	for item := range declared.All() {
		if item.Key.Target == "kubernetes" && item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster" {
			clusters = append(clusters, item)
		}
	}
	return clusters, pools
}

// otherClusters finds the Clusters after the first.
func otherClusters(clusters []state.Item) []state.Problem {
	var problems []state.Problem
	for _, c := range clusters[1:] {
		problems = append(problems, state.NewProblem(c.Origin, finding.New(codeSecondCluster,
			"Cluster %s: there is another Cluster, %s (%s), and an API server has one: remove one of them",
			finding.NewFact("cluster", c.Key.Name), finding.NewFact("otherCluster", clusters[0].Key.Name), finding.NewFact("declaredAt", clusters[0].Origin))))
	}
	return problems
}

// items are what a declaration requires of every kind, in a fixed order.
func (t table) items(s resource.Declaration) ([]state.Item, []state.Problem) {
	var out []state.Item
	var problems []state.Problem
	hashes := map[state.Key]string{}
	for _, of := range t.order() {
		for _, item := range t[of].Desired(s) {
			hash := state.Hash(item.Object)
			if other, twice := hashes[item.Key]; twice {
				if other != hash {
					problems = append(problems, state.NewProblem(s.Origin, finding.New(codeResourceConflict,
						"two fields of the Cluster declare %s in different ways: give one of them another name", finding.NewFact("resource", item.Key))))
				}
				continue
			}
			hashes[item.Key] = hash
			out = append(out, item)
		}
	}
	return out, problems
}

func (t table) order() []kindOf {
	return slices.SortedFunc(maps.Keys(t), func(a, b kindOf) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.kind, b.kind))
	})
}

// keys are the keys of what a declaration requires.
func (t table) keys(s resource.Declaration) map[state.Key]bool {
	out := map[state.Key]bool{}
	items, _ := t.items(s)
	for _, item := range items {
		out[item.Key] = true
	}
	return out
}

// fields finds out which field requires what: a thing belongs to the field without
// which it would not be desired.
func (t table) fields(s resource.Declaration) map[state.Key]string {
	all := t.keys(s)
	out := map[state.Key]string{}
	for name, leave := range map[string]func(*v1alpha1.ClusterSpec){
		"spec.discovery":         func(c *v1alpha1.ClusterSpec) { c.Discovery = nil },
		"spec.nodeRole":          func(c *v1alpha1.ClusterSpec) { c.NodeRole = nil },
		"spec.interruptionQueue": func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue = nil },
		"spec.logging":           func(c *v1alpha1.ClusterSpec) { c.Logging = nil },
		"spec.managedNodeGroups": func(c *v1alpha1.ClusterSpec) { c.ManagedNodeGroups = nil },
		"spec.controllerRole":    func(c *v1alpha1.ClusterSpec) { c.ControllerRole = nil },
	} {
		less := s
		less.Spec = *s.Spec.DeepCopy()
		leave(&less.Spec)
		rest := t.keys(less)
		for k := range all {
			if !rest[k] {
				out[k] = name
			}
		}
	}
	return out
}

// reserved finds the things that are held unless bootstrap writes.
func (t table) reserved(s resource.Declaration) map[state.Key]bool {
	held := func(bootstrap bool) map[state.Key]bool {
		s.Bootstrap = bootstrap
		out := map[state.Key]bool{}
		items, _ := t.items(s)
		for _, item := range items {
			out[item.Key] = item.ReadOnly != ""
		}
		return out
	}
	out := map[state.Key]bool{}
	free := held(true)
	for k, is := range held(false) {
		if is && !free[k] {
			out[k] = true
		}
	}
	return out
}
