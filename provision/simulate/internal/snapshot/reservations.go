package snapshot

import (
	"math"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
)

// unbounded is how many instances are taken to be available in a capacity reservation of which that
// is not known.
const unbounded = math.MaxInt32

// Reservations are the capacity reservations that a class selects.
type Reservations struct {
	List []provision.CapacityReservation
	// Listed is false where it is not known which they are, and Counted false where it is not known
	// how many instances are available in them, so that as many as are needed are taken to be.
	Listed, Counted bool
}

// Reservations are those of a class: what was read for it, or else what its status has. A class
// without terms selects none.
func (f *Indexed) Reservations(class *awsv1.EC2NodeClass) Reservations {
	if len(class.Spec.CapacityReservationSelectorTerms) == 0 {
		return Reservations{Listed: true, Counted: true}
	}
	if read, ok := f.CapacityReservations[class.Name]; ok {
		return Reservations{List: f.current(read), Listed: true, Counted: true}
	}
	var all []provision.CapacityReservation
	for _, r := range class.Status.CapacityReservations {
		all = append(all, provision.CapacityReservation{CapacityReservation: r, Available: unbounded})
	}
	return Reservations{List: f.current(all), Listed: len(all) > 0 || slices.ContainsFunc(class.Status.Conditions, reservationsReady)}
}

// clearReservations takes the capacity reservations out of the status of classes that have other terms than
// in the snapshot whose status it is.
func (f *Indexed) clearReservations(from *Indexed) {
	for name, class := range f.Classes {
		live, ok := from.Classes[name]
		if !ok || equality.Semantic.DeepEqual(class.Spec.CapacityReservationSelectorTerms, live.Spec.CapacityReservationSelectorTerms) {
			continue
		}
		class = class.DeepCopy()
		class.Status.CapacityReservations = nil
		class.Status.Conditions = slices.DeleteFunc(class.Status.Conditions, reservationsReady)
		f.Classes[name] = class
	}
}

// reservationsReady reports whether the condition is that Karpenter has read the reservations of a class.
func reservationsReady(c status.Condition) bool {
	return c.Type == awsv1.ConditionTypeCapacityReservationsReady && c.Status == metav1.ConditionTrue
}

// Assumed is the reservation with an ID that stands for one of which nothing is known.
func Assumed(id string) provision.CapacityReservation {
	return provision.CapacityReservation{CapacityReservation: awsv1.CapacityReservation{ID: id}, Available: unbounded}
}

// current are the reservations that have not ended, in the state that Karpenter gives them now.
func (f *Indexed) current(all []provision.CapacityReservation) []provision.CapacityReservation {
	var out []provision.CapacityReservation
	for _, r := range all {
		if r.EndTime != nil && !r.EndTime.After(f.Now) {
			continue
		}
		r.State = awsv1.CapacityReservationStateActive
		if leaves := r.LeavesAt(); !leaves.IsZero() && !f.Now.Before(leaves) {
			r.State = awsv1.CapacityReservationStateExpiring
		}
		out = append(out, r)
	}
	return out
}
