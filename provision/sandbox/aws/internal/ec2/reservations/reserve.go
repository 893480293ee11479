package reservations

import (
	"fmt"
	"net/http"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
)

// Reserve finds the reservation of a launch: the one its template names, or an
// open one that matches and has room. "" means none, which is right unless one
// was named.
func (svc *Service) Reserve(l Launch, now time.Time) (string, *api.Error) {
	const spec = "CapacityReservationSpecification."
	named := l.Data.Get(spec + "CapacityReservationTarget.CapacityReservationId")
	preference := l.Data.Get(spec + "CapacityReservationPreference")
	exists := false
	for _, r := range svc.reservations {
		exists = exists || r.ID == named
		if named != "" && r.ID != named || named == "" && (preference == "none" || !r.openTo(l)) {
			continue
		}
		if svc.hasCapacity(r, l, now) {
			return r.ID, nil
		}
	}
	switch {
	case named == "" && preference != "capacity-reservations-only":
		return "", nil
	case named != "" && !exists:
		return "", api.NewError(http.StatusBadRequest, "InvalidCapacityReservationId.NotFound", fmt.Sprintf("The capacity reservation ID '%s' does not exist", named))
	}
	return "", api.NewError(http.StatusBadRequest, "ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and available capacity for this request.")
}

// openTo reports whether launches use the reservation without naming it.
func (r *Reservation) openTo(l Launch) bool {
	return !r.Targeted && !r.CapacityBlock && l.CapacityType == offerings.OnDemand
}

func (svc *Service) hasCapacity(r *Reservation, l Launch, now time.Time) bool {
	return r.Type == l.Type && r.Zone == l.Zone && r.state(now) == "active" && svc.used(r) < r.Total
}
