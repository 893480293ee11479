package deviceplugin

import (
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// PhysicalGPUs returns the NodePools among the items with their limits in physical GPUs, before as well as after Expand:
// a limit in shares is divided by how many each GPU has under the configuration that serves the pool, and a limit
// on a resource that the configuration does not advertise limits nothing. Shares of a pool that no configuration among
// the items serves stay as they are.
func PhysicalGPUs(items []state.Item) []state.Item {
	e := survey(items)
	if len(e.plugins) == 1 {
		if plugin := e.read(e.plugins[0]); len(e.problems) == 0 {
			e.sharing = Sharing(plugin)
		}
	}
	out := make([]state.Item, 0, len(e.pools))
	for _, pool := range e.pools {
		out = append(out, e.physical(pool))
	}
	return out
}

// physical is the pool with its limit in physical GPUs.
func (e *expander) physical(pool state.Item) state.Item {
	limits := at(pool.Object, "spec", "limits")
	text, _ := at(pool.Object, "metadata", "annotations")[v1alpha1.GPULimitAnnotation].(string)
	gpus, err := strconv.ParseInt(text, 10, 64)
	pluginConfig, served := e.sharing.ConfigForPool(pool.Key.Name)
	var limit any
	switch {
	case err == nil && gpus > 0:
		limit = text
	case !served:
		return pool
	default:
		limit = divided(limits[string(pluginConfig.Resource())], pluginConfig)
	}
	left := maps.Clone(limits)
	if left == nil {
		left = map[string]any{}
	}
	delete(left, string(gpu.SharedResource))
	delete(left, string(gpu.Resource))
	if limit != nil {
		left[string(gpu.Resource)] = limit
	}
	pool.Object = with(pool.Object, "limits", left, "spec")
	return pool
}

// divided is a limit in shares in GPUs, a started one as a whole one; nil where there is none that can be read.
func divided(shares any, pluginConfig gpu.PluginConfig) any {
	q, err := resource.ParseQuantity(fmt.Sprint(shares))
	if err != nil { // Not there, or refused by the API server.
		return nil
	}
	each := int64(max(pluginConfig.Replicas, 1))
	n := q.Value()
	return strconv.FormatInt(n/each+min(n%each, 1), 10)
}
