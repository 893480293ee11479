package gpulint

import (
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/state"
)

// nodeOverlay is what matters of a NodeOverlay.
type nodeOverlay struct {
	Spec struct {
		Weight       int64                 `json:"weight"`
		Requirements []catalog.Requirement `json:"requirements"`
		Capacity     map[string]any        `json:"capacity"`
	} `json:"spec"`
}

// overlay is a NodeOverlay that the repository declares.
type overlay struct {
	nodeOverlay
	item state.Item
}

func (r *repository) readOverlay(item state.Item) {
	o := overlay{item: item}
	if read(item.Object, &o.nodeOverlay) {
		r.overlay = append(r.overlay, o)
	}
}

// overlaid reports whether some overlay adds a resource.
func (r *repository) overlaid(resource string) bool {
	return slices.ContainsFunc(r.overlay, func(o overlay) bool { _, ok := o.Spec.Capacity[resource]; return ok })
}

// recounted reports whether an overlay sets how many GPUs nodes of a pool have.
func (r *repository) recounted(p *pool) bool {
	return slices.ContainsFunc(r.overlay, func(o overlay) bool { _, names := o.Spec.Capacity[wholeGPU]; return names && o.canApply(p) })
}

// canApply reports whether the overlay can apply to GPU nodes of the pool.
func (o overlay) canApply(p *pool) bool {
	return p.mayHave(o.Spec.Requirements) && slices.ContainsFunc(p.gpus, func(t instanceType) bool { return t.satisfies(o.Spec.Requirements) })
}
