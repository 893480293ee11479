package deviceplugin

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// cluster is the target of everything that is read and made here.
const cluster = state.TargetKubernetes

// Expand returns what a repository declares together with what its DevicePlugin
// makes of it; the origin of whatever is made is the DevicePlugin's. A Set without
// a DevicePlugin and without a limit in GPUs comes back as it is.
//
// Problems are what is certainly wrong. What they are about is left out of the
// result, a NodePool as well as the DevicePlugin, so that it stays in the cluster as it
// is: a pool would otherwise lose the limit that it has, and nodes would follow a
// DevicePlugin without its plugin. That nothing of it is deleted either is the caller's
// part, as with every Problem.
func Expand(declared state.Set) (state.Set, []state.Problem) { return ExpandKeeping(declared, nil) }

// ExpandKeeping is Expand where more is known of pools that configurations name and that are not
// declared (see Undeclared): the numbers of GPUs for which a pool has overlays that stay
// as they are. A pool that is not in counts is one that is declared elsewhere.
func ExpandKeeping(declared state.Set, counts map[string][]int) (state.Set, []state.Problem) {
	items := declared.Items()
	if !NeedsExpansion(items) {
		return declared, nil
	}
	e := survey(items)
	e.kept = counts
	if len(e.plugins) > 0 {
		e.expand()
	}
	return e.finish()
}

// Refuse is Expand where something outside the repository prevents carrying the
// DevicePlugin out: each is a Problem with the reason given, and whatever depends on
// them stays as it is.
func Refuse(declared state.Set, why finding.Finding) (state.Set, []state.Problem) {
	e := survey(declared.Items())
	for _, item := range e.plugins {
		refused := finding.New(why.Code, "%s: %s", item.Key, why.Text)
		refused.Facts = why.Facts
		e.problems = append(e.problems, state.NewProblem(item.Origin, refused.With(finding.NewFact("object", item.Key))))
	}
	e.drop()
	return e.finish()
}

// NeedsExpansion reports whether Expand would do more with these items than to give them
// back: reading each costs next to nothing, and sorting them once more does not.
func NeedsExpansion(items []state.Item) bool {
	return slices.ContainsFunc(items, func(item state.Item) bool {
		return isDevicePlugin(item.Key) || isPool(item.Key) && limited(item)
	})
}

func isDevicePlugin(k state.Key) bool {
	return k.Kind == "DevicePlugin" && k.Group == v1alpha1.GroupVersion.Group && k.Target == cluster
}

func isPool(k state.Key) bool {
	return k.Kind == "NodePool" && k.Group == "karpenter.sh" && k.Target == cluster
}

// expander is one Expand at work.
type expander struct {
	declared []state.Item
	// plugins, pools, classes (EC2NodeClasses) and bottlerocket (by the name of the EC2NodeClass) are what of
	// the declared things matters here.
	plugins, pools, classes []state.Item
	bottlerocket            map[string]bool
	// clusters are the Clusters.
	clusters []state.Item
	// kept are the numbers of GPUs for which pools that are not declared have overlays.
	kept map[string][]int
	// types are the catalog's, nil until they are needed.
	types []catalog.InstanceType

	// sharing is the DevicePlugin's, the zero value without one. It means nothing
	// where invalid is true.
	sharing gpu.Sharing
	invalid bool

	// made are the new items; replaced holds what takes the place of a declared
	// item, nil for nothing.
	made []state.Item
	// driverMade is true once what all configurations by the DRA driver share is among them.
	driverMade bool
	replaced   map[state.Key]*state.Item
	problems   []state.Problem
}

// survey reads everything once.
func survey(items []state.Item) *expander {
	e := &expander{declared: items, bottlerocket: map[string]bool{}, replaced: map[state.Key]*state.Item{}}
	for _, item := range e.declared {
		switch k := item.Key; {
		case isDevicePlugin(k):
			e.plugins = append(e.plugins, item)
		case isPool(k):
			e.pools = append(e.pools, item)
		case k.Target == cluster && k.Group == v1alpha1.GroupVersion.Group && k.Kind == "Cluster":
			e.clusters = append(e.clusters, item)
		case k.Target == cluster && k.Group == "karpenter.k8s.aws" && k.Kind == "EC2NodeClass":
			e.classes = append(e.classes, item)
			if isBottlerocket(item.Object) {
				e.bottlerocket[k.Name] = true
			}
		}
	}
	return e
}

func (e *expander) problem(item state.Item, code finding.Code, format string, args ...any) {
	e.problems = append(e.problems, state.NewProblem(item.Origin, finding.New(code, format, args...)))
}

// exclude takes a declared item out of the result.
func (e *expander) exclude(item state.Item) { e.replaced[item.Key] = nil }

// expand makes what the DevicePlugin declares, or reports why that cannot be.
func (e *expander) expand() {
	first := e.plugins[0]
	for _, more := range e.plugins[1:] {
		e.problem(more, codeSecondDevicePlugin, "%s is a second DevicePlugin beside %s (%s), and a cluster has one: move its configurations there and remove it",
			finding.NewFact("object", more.Key), finding.NewFact("devicePlugin", first.Key.Name), finding.NewFact("declaredAt", first.Origin))
	}
	plugin := e.read(first)
	if len(e.problems) > 0 {
		e.drop()
		return
	}
	e.sharing = Sharing(plugin)
	e.refuseWithoutGate(first)
	e.refuseOnBottlerocket(first)
	if e.refusePartitions(first); len(e.problems) > 0 {
		e.drop()
		return
	}
	e.refuseSharedDevices()
	for _, pluginConfig := range e.sharing.Configs {
		e.pluginConfig(first, plugin.Spec, pluginConfig)
	}
}

// drop leaves the DevicePlugin out, whose problem was reported.
func (e *expander) drop() {
	e.invalid = true
	for _, item := range e.plugins {
		e.exclude(item)
	}
}

// finish counts the pools' limits by the DevicePlugin, and puts everything together.
func (e *expander) finish() (state.Set, []state.Problem) {
	for _, pool := range e.pools {
		if limited(pool) {
			e.limit(pool)
		}
	}
	out := e.result()
	return out, e.problems
}

// configuration makes everything of one configuration.
func (e *expander) pluginConfig(from state.Item, spec v1alpha1.DevicePluginSpec, pluginConfig gpu.PluginConfig) {
	if pluginConfig.Strategy == gpu.StrategyDRA {
		e.draDriver(from, spec, pluginConfig)
	} else if on, some := e.selection(pluginConfig).without(e.builtin()); some {
		config := configure(pluginConfig)
		e.make(from, "", "ConfigMap", "v1", config.object())
		e.make(from, "apps", "DaemonSet", "v1", daemonSet(spec, pluginConfig, config, on))
	}
	for _, overlay := range e.overlays(pluginConfig) {
		e.make(from, "karpenter.sh", "NodeOverlay", "v1alpha1", overlay)
	}
}

// make adds an object.
func (e *expander) make(from state.Item, group, kind, version string, object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	e.made = append(e.made, state.Item{
		Key:     state.Key{Target: cluster, Group: group, Kind: kind, Namespace: namespace, Name: name},
		Version: version, Object: object, Origin: from.Origin,
	})
}

// result puts it all together.
func (e *expander) result() state.Set {
	made := map[state.Key]bool{}
	for _, item := range e.made {
		made[item.Key] = true
	}
	all := make([]state.Item, 0, len(e.declared)+len(e.made))
	for _, item := range e.declared {
		instead, otherwise := e.replaced[item.Key]
		switch {
		case made[item.Key]:
			e.problem(item, codeObjectOfDevicePlugin, "%s is made by the DevicePlugin %s (%s): remove it here",
				finding.NewFact("object", item.Key), finding.NewFact("devicePlugin", e.sharing.Name), finding.NewFact("declaredAt", e.plugins[0].Origin))
		case !otherwise:
			all = append(all, item)
		case instead != nil:
			all = append(all, *instead)
		}
	}
	return state.NewSet(append(all, e.made...)...)
}

// selection are the pools that a configuration serves.
func (e *expander) selection(p gpu.PluginConfig) selection {
	if p.Name == e.sharing.Default {
		return selection{allBut: true, names: e.sharing.Others(p.Name)}
	}
	return selection{names: p.Pools}
}

// builtin are the declared pools whose nodes run a plugin of their own: two on one
// node would register the same resource in turns.
//
// They are identified by EC2NodeClasses that are declared beside them. Of a pool or a
// class that is declared elsewhere nothing is known here, and no label that Karpenter
// or Bottlerocket gives to a node names the system that it runs, by which a DaemonSet
// could keep off: the plugin comes to such nodes too. Their name is in the node's
// status, so that package readiness passes over our pod there.
func (e *expander) builtin() []string {
	var out []string
	for _, pool := range e.pools {
		if e.bottlerocket[className(pool)] {
			out = append(out, pool.Key.Name)
		}
	}
	return out
}

// className is the EC2NodeClass that a pool names; empty where it names none.
func className(pool state.Item) string {
	ref := at(pool.Object, "spec", "template", "spec", "nodeClassRef")
	kind, _ := ref["kind"].(string)
	name, _ := ref["name"].(string)
	if kind != "" && kind != "EC2NodeClass" {
		return ""
	}
	return name
}

// isBottlerocket decides it by an EC2NodeClass. Its family goes before the alias, as in
// Karpenter.
func isBottlerocket(class map[string]any) bool {
	spec := at(class, "spec")
	if family, _ := spec["amiFamily"].(string); family != "" {
		return strings.EqualFold(family, "Bottlerocket")
	}
	terms, _ := spec["amiSelectorTerms"].([]any)
	for _, t := range terms {
		term, _ := t.(map[string]any)
		alias, _ := term["alias"].(string)
		if family, _, _ := strings.Cut(alias, "@"); strings.EqualFold(family, "bottlerocket") {
			return true
		}
	}
	return false
}
