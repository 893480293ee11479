// Package gpulint finds what people get wrong about GPUs: what a DevicePlugin, the
// NodePools, their EC2NodeClasses, NodeOverlays and the workloads of one repository
// say of the same GPUs, held against each other and against what instance types
// have.
//
// It is pure and refuses nothing. What an object says by itself is its schema's
// matter, and what nothing can be made of is package deviceplugin's. It says only
// what the repository shows: of pools, plugins and pods that it does not declare
// it assumes nothing. Start reading at Check.
package gpulint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Finding is one thing that is wrong, or may be other than it looks.
type Finding struct {
	// Key is the object's.
	Key state.Key
	// Origin is the place of the field.
	Origin state.Origin
	// Text names the field, says what happens and what to do.
	Text string
	// Field is as state.Problem has it.
	Field string
	// Advice is true for what works, and otherwise or dearer than its author may
	// think; false for what cannot work.
	Advice bool
}

// Problem is the finding as one of lint's.
func (f Finding) Problem() state.Problem {
	return state.Problem{Origin: f.Origin, Message: f.Key.String() + ": " + f.Text, Object: f.Key, Field: f.Field}
}

// Check returns the findings in the order of file and line. Objects that cannot
// be read are passed over: their schema says what is wrong with them.
func Check(d declared.Declared, types *catalog.Catalog) []Finding {
	c := newChecker(d, types)
	for _, check := range []func(){
		c.profiles, c.engine, c.plugins, c.taints, c.renames, c.limits, c.budgets, c.overlays,
		c.timeouts, c.images, c.registration, c.bottlerocket, c.mig, c.requests, c.packing,
	} {
		check()
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line),
			a.Key.Compare(b.Key), cmp.Compare(a.Text, b.Text),
		)
	})
	return slices.Compact(c.findings)
}

// checker holds what of a repository matters here.
type checker struct {
	items     []state.Item
	documents func(state.Origin) (manifest.Document, bool)
	types     *catalog.Catalog
	offered   []instanceType
	// partial is true where a pool may be missing that the repository means to
	// declare: nothing can then be said of all of them.
	partial bool

	// plugin is the DevicePlugin, nil without one; sharing what it says.
	plugin  *devicePlugin
	sharing gpu.Sharing

	pools     []*pool
	classes   map[string]*class
	overlay   []overlay
	workloads []workload

	findings []Finding
}

// devicePlugin is the DevicePlugin as it is declared.
type devicePlugin struct {
	v1alpha1.DevicePlugin
	item state.Item
}

func newChecker(d declared.Declared, types *catalog.Catalog) *checker {
	c := &checker{items: d.Set.Items(), documents: d.Documents(), types: types, offered: offered(types), partial: len(d.Problems) > 0, classes: map[string]*class{}}
	for _, item := range c.items {
		if item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "DevicePlugin" {
			c.readPlugin(item)
		}
	}
	for _, item := range c.items {
		switch k := item.Key; {
		case k.Group == "karpenter.sh" && k.Kind == "NodePool":
			c.readPool(item)
		case k.Group == "karpenter.sh" && k.Kind == "NodeOverlay":
			c.readOverlay(item)
		case k.Group == "karpenter.k8s.aws" && k.Kind == "EC2NodeClass":
			c.readClass(item)
		default:
			c.readWorkload(item)
		}
	}
	for i := range c.workloads {
		w := &c.workloads[i]
		if w.asks = w.asked(); len(w.asks) > 0 {
			w.on = c.landings(*w)
		}
	}
	return c
}

// readPlugin takes the first DevicePlugin; a second is refused elsewhere.
func (c *checker) readPlugin(item state.Item) {
	var plugin v1alpha1.DevicePlugin
	if c.plugin != nil || !read(item.Object, &plugin) {
		return
	}
	plugin.Name = item.Key.Name
	c.plugin, c.sharing = &devicePlugin{plugin, item}, deviceplugin.Sharing(&plugin)
}

// read decodes an object, and reports false where it is not of that form.
func read(object map[string]any, into any) bool {
	raw, err := json.Marshal(object)
	return err == nil && json.Unmarshal(raw, into) == nil
}

// mistake reports what cannot work, by the path of the field; an empty path is the
// object.
func (c *checker) mistake(item state.Item, path, format string, args ...any) {
	c.report(item, path, false, fmt.Sprintf(format, args...))
}

// advise reports what works, and otherwise than may be meant.
func (c *checker) advise(item state.Item, path, format string, args ...any) {
	c.report(item, path, true, fmt.Sprintf(format, args...))
}

func (c *checker) report(item state.Item, path string, advice bool, text string) {
	if path != "" {
		text = path + ": " + text
	}
	c.findings = append(c.findings, Finding{Key: item.Key, Origin: lint.At(c.documents, item, path), Text: text, Field: path, Advice: advice})
}

// resources of GPUs by their names in objects.
const (
	whole  = string(gpu.Resource)
	shared = string(gpu.SharedResource)
)

// amountOf is the whole number of a resource in a container's list.
func amountOf(list corev1.ResourceList, name string) int64 {
	q := list[corev1.ResourceName(name)]
	return q.Value()
}
