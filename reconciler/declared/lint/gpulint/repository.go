package gpulint

import (
	"encoding/json"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// repository is what of one matters here.
type repository struct {
	items         []state.Item
	documents     func(state.Origin) (manifest.Document, bool)
	types         *catalog.Catalog
	instanceTypes []instanceType
	// partial is true where a pool may be missing that the repository means to
	// declare: nothing can then be concluded of all of them.
	partial bool

	// plugin is the DevicePlugin, nil without one; sharing what it declares.
	plugin  *devicePlugin
	sharing gpu.Sharing

	pools     []*pool
	classes   map[string]*class
	overlay   []overlay
	workloads []workload
}

func readRepository(d declared.Declared, types *catalog.Catalog) *repository {
	r := &repository{items: d.Set.Items(), documents: d.Documents(), types: types, instanceTypes: instanceTypes(types), partial: len(d.Problems) > 0, classes: map[string]*class{}}
	for _, item := range r.items {
		if item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "DevicePlugin" {
			r.readPlugin(item)
		}
	}
	for _, item := range r.items {
		switch k := item.Key; {
		case k.Group == "karpenter.sh" && k.Kind == "NodePool":
			r.readPool(item)
		case k.Group == "karpenter.sh" && k.Kind == "NodeOverlay":
			r.readOverlay(item)
		case k.Group == "karpenter.k8s.aws" && k.Kind == "EC2NodeClass":
			r.readClass(item)
		default:
			r.readWorkload(item)
		}
	}
	for i := range r.workloads {
		w := &r.workloads[i]
		if w.amounts = w.gpuRequests(); len(w.amounts) > 0 {
			w.on = r.compatiblePools(*w)
		}
	}
	return r
}

// devicePlugin is the DevicePlugin as it is declared.
type devicePlugin struct {
	v1alpha1.DevicePlugin
	item state.Item
}

// readPlugin takes the first DevicePlugin; a second is refused elsewhere.
func (r *repository) readPlugin(item state.Item) {
	var plugin v1alpha1.DevicePlugin
	if r.plugin != nil || !read(item.Object, &plugin) {
		return
	}
	plugin.Name = item.Key.Name
	r.plugin, r.sharing = &devicePlugin{plugin, item}, deviceplugin.Sharing(&plugin)
}

// read decodes an object, and reports false where it is not of that form.
func read(object map[string]any, into any) bool {
	raw, err := json.Marshal(object)
	return err == nil && json.Unmarshal(raw, into) == nil
}
