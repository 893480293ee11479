package drift

import (
	"reflect"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
)

// extent is how many of the nodes that there may be a change replaces.
type extent int

const (
	none extent = iota
	some
	every
)

// Extent is how many of the nodes that the pool may have the change replaces.
func (s *Change) Extent(name string) (all, part bool) {
	was, is := s.Before.Pools[name], s.After.Pools[name]
	if was == nil || is == nil {
		return false, false
	}
	reaches := none
	if s.poolHash(was) != s.poolHash(is) {
		reaches = every
	}
	reaches = max(reaches, s.narrowed(was, is))
	if old, class := s.Before.Class(was), s.After.Class(is); old != nil && class != nil {
		if s.nodeClassHash(old, "") != s.nodeClassHash(class, "") {
			reaches = every
		}
		for _, selector := range reselected(old, class) {
			reaches = max(reaches, selector)
		}
	}
	return reaches == every, reaches == some
}

// reselected is what other selectors of a class reach, by the names of the fields. Ids
// determine it by themselves.
func reselected(old, class *awsv1.EC2NodeClass) map[string]extent {
	image := func(t awsv1.AMISelectorTerm) string { return t.ID }
	subnet := func(t awsv1.SubnetSelectorTerm) string { return t.ID }
	group := func(t awsv1.SecurityGroupSelectorTerm) string { return t.ID }
	reservation := func(t awsv1.CapacityReservationSelectorTerm) string { return t.ID }
	reservations := chosen(old.Spec.CapacityReservationSelectorTerms, class.Spec.CapacityReservationSelectorTerms, reservation, anyOf)
	return map[string]extent{
		// Nodes outside of reservations stay.
		"capacityReservationSelectorTerms": min(reservations, some),
		"amiSelectorTerms":                 chosen(old.Spec.AMISelectorTerms, class.Spec.AMISelectorTerms, image, newest),
		"subnetSelectorTerms":              chosen(old.Spec.SubnetSelectorTerms, class.Spec.SubnetSelectorTerms, subnet, anyOf),
		"securityGroupSelectorTerms":       chosen(old.Spec.SecurityGroupSelectorTerms, class.Spec.SecurityGroupSelectorTerms, group, together),
	}
}

// selectorMatch is which of the selected a node is to have.
type selectorMatch int

const (
	// newest is the newest image that fits, whichever of the selected that is.
	newest selectorMatch = iota
	// anyOf is one of the subnets.
	anyOf
	// together are all groups.
	together
)

// chosen compares the terms of a selector.
func chosen[T any](old, terms []T, id func(T) string, of selectorMatch) extent {
	if reflect.DeepEqual(old, terms) {
		return none
	}
	had, known := idsOf(old, id)
	has, all := idsOf(terms, id)
	if !known || !all {
		return some
	}
	for _, list := range []*[]string{&had, &has} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	kept := 0
	for _, one := range had {
		if slices.Contains(has, one) {
			kept++
		}
	}
	switch {
	case kept == len(had) && (of == anyOf || len(had) == len(has)):
		return none
	case of == together || kept == 0:
		return every
	}
	return some
}

// narrowed is what other requirements reach: the nodes that the pool may have
// bought before and that they no longer allow.
func (s *Change) narrowed(was, is *karpv1.NodePool) extent {
	var desired []karpv1.NodeSelectorRequirementWithMinValues
	for _, r := range is.Spec.Template.Spec.Requirements {
		if !slices.ContainsFunc(was.Spec.Template.Spec.Requirements, func(old karpv1.NodeSelectorRequirementWithMinValues) bool {
			return equality.Semantic.DeepEqual(r, old)
		}) {
			desired = append(desired, r)
		}
	}
	if len(desired) == 0 {
		return none
	}
	stock, ok := s.Before.Offerings[was.Name]
	if !ok {
		return some // What it bought is not known.
	}
	now, had := scheduling.NewNodeSelectorRequirementsWithMinValues(desired...), offerings.Requirements(was)
	lost, kept := false, false
	for _, it := range stock.Allowed {
		for _, of := range it.Offerings.Available().Compatible(had) {
			labels := scheduling.NewRequirements(it.Requirements.Values()...)
			labels.Add(of.Requirements.Values()...)
			labels.Add(had.Values()...)
			labels.Add(scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, was.Name))
			if labels.Compatible(now) != nil {
				lost = true
				continue
			}
			kept = true
			lost = lost || loses(labels, now)
		}
	}
	switch {
	case lost && !kept:
		return every
	case lost:
		return some
	}
	return none
}

// loses reports whether some of the values that a label may have are no longer
// desired.
func loses(labels, desired scheduling.Requirements) bool {
	for key := range desired {
		has := labels.Get(key)
		if has.Operator() == corev1.NodeSelectorOpIn && slices.ContainsFunc(has.Values(), func(v string) bool { return !desired.Get(key).Has(v) }) {
			return true
		}
	}
	return false
}
