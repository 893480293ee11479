package deviceplugin

import (
	"maps"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// maxLimit is far above any quota, and far from where a product of it with the
// shares of a GPU would overflow.
const maxLimit = 100_000

// limited reports whether a NodePool has a limit in physical GPUs.
func limited(pool state.Item) bool {
	_, ok := at(pool.Object, "metadata", "annotations")[v1alpha1.GPULimitAnnotation]
	return ok
}

// limit writes a pool's limit in GPUs as the number of shares that Karpenter
// counts. A pool whose limit cannot be computed is left as it is in the cluster: any
// number, and none, could let it buy what the limit is there to forbid.
func (e *expander) limit(pool state.Item) {
	e.exclude(pool)
	if e.invalid {
		return // The problem was reported.
	}
	if _, dra := e.sharing.DRAForPool(pool.Key.Name); dra {
		e.problem(pool, codeGPULimitByDRADriver, "%s has the annotation %s, and its GPUs are advertised by NVIDIA's DRA driver, whose devices Karpenter does not count against spec.limits: write spec.limits.nodes, or a limit of cpu, instead",
			finding.NewFact("object", pool.Key), finding.NewFact("annotation", v1alpha1.GPULimitAnnotation))
		return
	}
	pluginConfig, ok := e.sharing.ConfigForPool(pool.Key.Name)
	if !ok {
		e.problem(pool, codeGPULimitWithoutConfig, "%s has the annotation %s, and no configuration of a DevicePlugin in the repository serves the pool: add it to one, or write the limit into spec.limits",
			finding.NewFact("object", pool.Key), finding.NewFact("annotation", v1alpha1.GPULimitAnnotation))
		return
	}
	text, _ := at(pool.Object, "metadata", "annotations")[v1alpha1.GPULimitAnnotation].(string)
	gpus, err := strconv.ParseInt(text, 10, 64)
	if err != nil || gpus < 1 || gpus > maxLimit || strconv.FormatInt(gpus, 10) != text {
		e.problem(pool, codeGPULimitInvalid, "%s: the annotation %s is %.40q and must be a number of GPUs, \"1\" or more",
			finding.NewFact("object", pool.Key), finding.NewFact("annotation", v1alpha1.GPULimitAnnotation), text)
		return
	}
	spec, isMap := pool.Object["spec"].(map[string]any)
	limits, limitsAreMap := spec["limits"].(map[string]any)
	if !isMap || spec["limits"] != nil && !limitsAreMap {
		e.problem(pool, finding.ObjectInvalid, "%s: spec.limits cannot be read, and the API server would refuse it", finding.NewFact("object", pool.Key))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(pluginConfig.Allocatable(1))) {
		if _, twice := limits[string(name)]; twice {
			e.problem(pool, codeGPULimitTwice, "%s has the annotation %s and spec.limits[%s], which would be two limits on the same GPUs: keep one",
				finding.NewFact("object", pool.Key), finding.NewFact("annotation", v1alpha1.GPULimitAnnotation), finding.NewFact("resource", name))
			return
		}
	}
	allocatable := pluginConfig.Allocatable(int(gpus))
	for _, resource := range pluginConfig.Resources() {
		pool.Object = with(pool.Object, string(resource), strconv.FormatInt(allocatable[resource], 10), "spec", "limits")
	}
	e.replaced[pool.Key] = &pool
}
