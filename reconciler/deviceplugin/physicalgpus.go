package deviceplugin

import (
	"fmt"
	"maps"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
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
		limit = dividedLimit(limits, pluginConfig)
	}
	left := maps.Clone(limits)
	if left == nil {
		left = map[string]any{}
	}
	maps.DeleteFunc(left, func(name string, _ any) bool {
		_, of := pluginConfig.Allocatable(1)[corev1.ResourceName(name)]
		return of
	})
	delete(left, string(gpu.SharedResource))
	delete(left, string(gpu.Resource))
	if limit != nil {
		left[string(gpu.Resource)] = limit
	}
	pool.Object = with(pool.Object, "limits", left, "spec")
	return pool
}

// dividedLimit is the least of a pool's limits in what its configuration advertises, in GPUs, a started one as a whole one; nil
// where there is none that can be read.
func dividedLimit(limits map[string]any, pluginConfig gpu.PluginConfig) any {
	each := pluginConfig.Allocatable(1)
	least, found := int64(math.MaxInt64), false
	for _, resourceName := range pluginConfig.Resources() {
		q, err := resource.ParseQuantity(fmt.Sprint(limits[string(resourceName)]))
		if err != nil { // Not there, or refused by the API server.
			continue
		}
		n, per := q.Value(), max(each[resourceName], 1)
		least, found = min(least, n/per+min(n%per, 1)), true
	}
	if !found {
		return nil
	}
	return strconv.FormatInt(least, 10)
}
