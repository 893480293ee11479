package gpulint

import (
	"maps"
	"slices"
	"strings"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// nodeClass is what matters of an EC2NodeClass.
type nodeClass struct {
	Spec struct {
		Family   string    `json:"amiFamily"`
		Terms    []amiTerm `json:"amiSelectorTerms"`
		UserData string    `json:"userData"`
		// Reservations are the selector terms of capacity reservations.
		Reservations []map[string]any `json:"capacityReservationSelectorTerms"`
	} `json:"spec"`
}

// amiTerm selects AMIs; terms are alternatives.
type amiTerm struct {
	Alias     string            `json:"alias"`
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Parameter string            `json:"ssmParameter"`
	Tags      map[string]string `json:"tags"`
}

// class is an EC2NodeClass.
type class struct {
	nodeClass
	item         state.Item
	bottlerocket bool
}

func (r *repository) readClass(item state.Item) {
	k := &class{item: item}
	if !read(item.Object, &k.nodeClass) {
		return
	}
	k.bottlerocket = strings.EqualFold(k.Spec.Family, "Bottlerocket")
	if k.Spec.Family == "" {
		k.bottlerocket = slices.ContainsFunc(k.Spec.Terms, func(t amiTerm) bool { return strings.HasPrefix(strings.ToLower(t.Alias), "bottlerocket@") })
	}
	r.classes[item.Key.Name] = k
}

// classOf is the pool's class; an empty one where the repository has none.
func (r *repository) classOf(p *pool) *class {
	if k := r.classes[p.Spec.Template.Spec.Class.Name]; k != nil {
		return k
	}
	return &class{}
}

// reservedGate is Karpenter's name for what launches nodes into capacity reservations.
const reservedGate = "ReservedCapacity"

// reserved finds pools, classes and a Cluster of which one relies on capacity reservations, and another
// does not.
func (c *linter) reserved() {
	for _, p := range c.pools {
		c.unreserved(p)
	}
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		if k := c.classes[name]; len(k.Spec.Reservations) > 0 {
			c.unused(name, k)
			c.ungated(name, k)
		}
	}
}

// unreserved finds a pool that allows nothing but reserved capacity, of a class that selects none.
func (c *linter) unreserved(p *pool) {
	name := p.Spec.Template.Spec.Class.Name
	k := c.classes[name]
	if k == nil || len(k.Spec.Reservations) > 0 || !p.allows(karpv1.CapacityTypeReserved) || p.allows(karpv1.CapacityTypeOnDemand) || p.allows(karpv1.CapacityTypeSpot) {
		return
	}
	c.problem(p.item, "spec.template.spec.requirements", codeReservationMissing, "%s is the only capacity type allowed, and EC2NodeClass %s (%s) selects no capacity reservation, so that the pool has no node: write spec.capacityReservationSelectorTerms there",
		karpv1.CapacityTypeReserved, finding.NewFact("nodeClass", name), finding.NewFact("declaredAt", k.item.Origin))
}

// unused finds a class whose reservations no pool may use.
func (c *linter) unused(name string, k *class) {
	of := func(p *pool) bool { return p.Spec.Template.Spec.Class.Name == name }
	if c.partial || !slices.ContainsFunc(c.pools, of) || slices.ContainsFunc(c.pools, func(p *pool) bool { return of(p) && p.allows(karpv1.CapacityTypeReserved) }) {
		return
	}
	c.warn(k.item, "spec.capacityReservationSelectorTerms", codeReservationUnused, "no NodePool of this class allows the capacity type %s, so that nothing is launched into these reservations, which are paid for unused as well: add it to a pool's requirement of %s",
		karpv1.CapacityTypeReserved, karpv1.CapacityTypeLabelKey)
}

// ungated finds a Cluster that switches off what a class with reservations relies on.
func (c *linter) ungated(name string, k *class) {
	for _, item := range c.items {
		var cluster v1alpha1.Cluster
		if item.Key.Group != v1alpha1.GroupVersion.Group || item.Key.Kind != "Cluster" || !read(item.Object, &cluster) {
			continue
		}
		if on, set := cluster.Spec.Engine.FeatureGates[reservedGate]; set && !on {
			c.problem(item, "spec.engine.featureGates["+reservedGate+"]", codeReservedCapacityFeatureGateDisabled, "without it Karpenter launches nothing into the capacity reservations that EC2NodeClass %s (%s) selects: take it out",
				finding.NewFact("nodeClass", name), finding.NewFact("declaredAt", k.item.Origin))
		}
	}
}

// allows reports whether the pool may have nodes of a capacity type.
func (p *pool) allows(capacityType string) bool {
	return !slices.ContainsFunc(p.requirements(), func(r catalog.Requirement) bool {
		return r.Key == karpv1.CapacityTypeLabelKey && !r.Met(map[string]string{r.Key: capacityType})
	})
}
