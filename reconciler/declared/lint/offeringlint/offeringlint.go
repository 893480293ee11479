// Package offeringlint holds what a repository declares against what AWS offers in its region: instance types that
// no zone offers, and capacity reservations that end.
//
// It makes no request: what AWS returned is given to it, and where it is not known, nothing is found. All
// that it finds are warnings, since what AWS offers changes. Start reading at Check.
package offeringlint

import (
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// The codes of what AWS does not offer, or not for long.
const (
	codeInstanceTypesNotOffered finding.Code = "InstanceTypesNotOffered"
	codeReservationEnds         finding.Code = "CapacityReservationEnds"
)

// requirements is the field of a NodePool that chooses instance types.
const requirements = "spec.template.spec.requirements"

// Check returns the warnings in the order of the objects.
func Check(d declared.Declared, types *catalog.Catalog, known published.Content) []state.Problem {
	var out []state.Problem
	for _, item := range d.Set.Items() {
		switch {
		case item.Key.Group == "karpenter.sh" && item.Key.Kind == "NodePool":
			out = append(out, notOffered(d, item, types, known)...)
		case item.Key.Group == "karpenter.k8s.aws" && item.Key.Kind == "EC2NodeClass":
			out = append(out, ends(d, item, known)...)
		}
	}
	return out
}

// warning is a finding about a field of an item.
func warning(d declared.Declared, item state.Item, field string, found finding.Finding) state.Problem {
	out := state.NewProblem(lint.Position(d.Documents(), item, field), found)
	out.Object, out.Field, out.Detail, out.Message = item.Key, field, out.Message, item.Key.String()+": "+field+": "+out.Message
	return out
}

// notOffered finds the instance types that a NodePool names, or where it names none, all that it allows, where
// no zone that it may use offers them.
func notOffered(d declared.Declared, item state.Item, types *catalog.Catalog, known published.Content) []state.Problem {
	list := known.Offerings
	if list == nil || list.ZonesAt.IsZero() {
		return nil
	}
	required := catalog.Requirements(item.Object)
	offered := func(name string) bool {
		return slices.ContainsFunc(list.Zones[name], func(zone string) bool { return allows(required, corev1.LabelTopologyZone, zone) })
	}
	var missing []string
	// What a variable without a value selects may be offered.
	some := slices.ContainsFunc(required, func(r catalog.Requirement) bool { return r.ByType() && !r.IsResolved() })
	for _, name := range candidates(required, types) {
		if offered(name) {
			some = true
		} else {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) == 0 || some && !isNamed(required):
		return nil
	case some:
		return []state.Problem{warning(d, item, requirements, finding.New(codeInstanceTypesNotOffered,
			"no zone of %s that the pool may use offers %s, of %s, so that no node is of these types",
			finding.NewFact("region", list.Region), finding.NewFact("instanceTypes", strings.Join(bounded(missing), ", ")), finding.NewFact("readAt", date(list.ZonesAt))))}
	}
	return []state.Problem{warning(d, item, requirements, finding.New(codeInstanceTypesNotOffered,
		"no zone of %s that the pool may use offers any instance type that it allows (%s), of %s, so that the pool has no node",
		finding.NewFact("region", list.Region), finding.NewFact("instanceTypes", strings.Join(bounded(missing), ", ")), finding.NewFact("readAt", date(list.ZonesAt))))}
}

// candidates are the names of the instance types that requirements allow, sorted: those that they name, with or without
// an entry in the catalog, or all of the catalog that they allow. What holds a variable is left out.
func candidates(required []catalog.Requirement, types *catalog.Catalog) []string {
	found := map[string]bool{}
	for _, r := range required {
		if r.Key != corev1.LabelInstanceTypeStable || r.Operator != string(corev1.NodeSelectorOpIn) {
			continue
		}
		for _, name := range r.Values {
			if _, known := types.Lookup(name); !known && !strings.Contains(name, "${") {
				found[name] = true
			}
		}
	}
	for _, t := range types.Types() {
		labels := t.Labels()
		if !slices.ContainsFunc(required, func(r catalog.Requirement) bool { return r.ByType() && !r.Met(labels) }) {
			found[t.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// isNamed reports whether the requirements name instance types.
func isNamed(required []catalog.Requirement) bool {
	return slices.ContainsFunc(required, func(r catalog.Requirement) bool {
		return r.Key == corev1.LabelInstanceTypeStable && r.Operator == string(corev1.NodeSelectorOpIn)
	})
}

// allows reports whether requirements allow a value of a label. Those that hold a variable may allow any.
func allows(required []catalog.Requirement, key, value string) bool {
	return !slices.ContainsFunc(required, func(r catalog.Requirement) bool {
		return r.Key == key && r.IsResolved() && !r.Met(map[string]string{key: value})
	})
}

// most is how many instance types are named.
const most = 5

func bounded(names []string) []string {
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), plural.Count(len(names)-most, "other"))
}

func date(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// ends finds the capacity reservations of an EC2NodeClass that have an end.
func ends(d declared.Declared, item state.Item, known published.Content) []state.Problem {
	var out []state.Problem
	for _, r := range known.CapacityReservations[item.Key.Name] {
		if r.EndTime == nil {
			continue
		}
		of := provision.CapacityReservation{CapacityReservation: r.CapacityReservation}
		id, end := finding.NewFact("capacityReservation", r.ID), finding.NewFact("endsAt", minute(r.EndTime.Time))
		var nodes any = "its nodes" // of which it is not known how many there are
		if r.Nodes > 0 {
			nodes = finding.As("nodes", r.Nodes, "its "+plural.Count(r.Nodes, "node"))
		}
		found := finding.New(codeReservationEnds, "capacity reservation %s ends %s: %s go on as On-Demand Instances, and Karpenter replaces those of pools that do not allow on-demand", id, end, nodes)
		if at := of.LeavesAt(); !at.IsZero() {
			found = finding.New(codeReservationEnds, "Capacity Block %s ends %s: Karpenter deletes %s at %s, 40 minutes before, whatever budgets allow", id, end, nodes, finding.NewFact("leavesAt", minute(at)))
		}
		out = append(out, warning(d, item, "spec.capacityReservationSelectorTerms", found))
	}
	return out
}

// minute is a moment as it is written, to the minute.
func minute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// Terms are the selector terms of capacity reservations of the declared EC2NodeClasses, by the class's name.
func Terms(d declared.Declared) map[string][]awsv1.CapacityReservationSelectorTerm {
	out := map[string][]awsv1.CapacityReservationSelectorTerm{}
	for _, item := range d.Set.Items() {
		var class awsv1.EC2NodeClass
		if item.Key.Group != "karpenter.k8s.aws" || item.Key.Kind != "EC2NodeClass" || runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &class) != nil {
			continue
		}
		if terms := class.Spec.CapacityReservationSelectorTerms; len(terms) > 0 {
			out[item.Key.Name] = terms
		}
	}
	return out
}
