package reservations

import (
	"cmp"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) createReservation(in *api.Call) (any, error) {
	get := in.Form.Get
	kind, err := svc.offers.Type(get("InstanceType"))
	if err != nil {
		return nil, err
	}
	zone, err := svc.reservedZone(in)
	if err != nil {
		return nil, err
	}
	r := &Reservation{Type: kind.Name, Zone: zone.Name, lifecycle: lifecycle{created: in.Now, request: ec2query.RequestOf(in)}}
	if r.Total, err = count(in); err != nil {
		return nil, err
	}
	if r.Tags, err = reservationTags(in.Form); err != nil {
		return nil, err
	}
	if r.End, err = endDate(in); err != nil {
		return nil, err
	}
	match := cmp.Or(get("InstanceMatchCriteria"), "open")
	r.Targeted = match == "targeted"
	switch {
	case match != "open" && match != "targeted":
		return nil, api.Refuse("InvalidParameterValue", "InstanceMatchCriteria '%s' is neither open nor targeted.", match)
	case get("InstancePlatform") != "Linux/UNIX":
		return nil, api.Refuse("InvalidParameterValue", "InstancePlatform '%s' is not emulated, only Linux/UNIX.", get("InstancePlatform"))
	case cmp.Or(get("Tenancy"), "default") != "default":
		return nil, api.Refuse("InvalidParameterValue", "Tenancy '%s' is not emulated, only default.", get("Tenancy"))
	}
	if before, again, err := svc.repeated(in); err != nil {
		return nil, err
	} else if again {
		return []query.Element{query.Group("capacityReservation", svc.reservationElements(in, before)...)}, nil
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	r.ID = svc.account.NewID("cr")
	svc.reservations = append(svc.reservations, r)
	return []query.Element{query.Group("capacityReservation", svc.reservationElements(in, r)...)}, nil
}

// repeated is what the request made that a call repeats.
func (svc *Service) repeated(in *api.Call) (*Reservation, bool, error) {
	return ec2query.Repeated(in, svc.reservations, func(r *Reservation) ec2query.Request { return r.request })
}

// mostInstances is the most that one reservation may be created for.
const mostInstances = 1000

// count reads the number of instances.
func count(in *api.Call) (int, error) {
	n, _, err := in.Form.Int("InstanceCount")
	if err != nil || n < 1 || n > mostInstances {
		return 0, api.Refuse("InvalidParameterValue", "InstanceCount '%s' is not a number of 1 to %d.", in.Form.Get("InstanceCount"), mostInstances)
	}
	return n, nil
}

// reservedZone reads the zone of a new reservation, by name or by id.
func (svc *Service) reservedZone(in *api.Call) (catalog.Zone, error) {
	name, id := in.Form.Get("AvailabilityZone"), in.Form.Get("AvailabilityZoneId")
	if (name == "") == (id == "") {
		return catalog.Zone{}, api.Refuse("MissingParameter", "The request must contain either AvailabilityZone or AvailabilityZoneId.")
	}
	z, ok := svc.offers.Zone(name + id)
	if !ok {
		return z, api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", name+id)
	}
	return z, nil
}

// endDate reads the end of a new reservation, zero for none.
func endDate(in *api.Call) (time.Time, error) {
	text := in.Form.Get("EndDate")
	kind := cmp.Or(in.Form.Get("EndDateType"), map[bool]string{true: "unlimited", false: "limited"}[text == ""])
	if (kind == "limited") != (text != "") || kind != "limited" && kind != "unlimited" {
		return time.Time{}, api.Refuse("InvalidParameterCombination", "EndDateType '%s' does not fit the EndDate '%s'.", kind, text)
	}
	if text == "" {
		return time.Time{}, nil
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil || !end.After(in.Now) {
		return end, api.Refuse("InvalidParameterValue", "EndDate '%s' is no time in the future.", text)
	}
	return end, nil
}

// cancelReservation ends a reservation; what runs in it goes on.
func (svc *Service) cancelReservation(in *api.Call) (any, error) {
	r, err := svc.activeReservation(in)
	switch {
	case err != nil:
		return nil, err
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	r.cancelled = true
	return []query.Element{query.Bool("return", true)}, nil
}

// activeReservation finds the reservation that the request names.
func (svc *Service) activeReservation(in *api.Call) (*Reservation, error) {
	id := in.Form.Get("CapacityReservationId")
	n := slices.IndexFunc(svc.reservations, func(r *Reservation) bool { return r.ID == id })
	if n < 0 {
		return nil, api.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
	}
	r := svc.reservations[n]
	if state := r.state(in.Now); state != "active" {
		return nil, api.Refuse("InvalidCapacityReservationState", "The capacity reservation %s is %s.", id, state)
	}
	return r, nil
}

// allocateInterruptible lends unused capacity of a reservation to one that its
// owner may take back: its instances are interrupted then.
func (svc *Service) allocateInterruptible(in *api.Call) (any, error) {
	source, err := svc.activeReservation(in)
	if err != nil {
		return nil, err
	}
	n, err := count(in)
	if err != nil {
		return nil, err
	}
	tags, err := ec2query.TagsOnly(in.Form, "capacity-reservation")
	if err != nil {
		return nil, err
	}
	_, again, err := svc.repeated(in)
	switch {
	case err != nil:
		return nil, err
	case again:
		return interruptibleElements(source, n), nil
	case source.Interruptible || source.CapacityBlock || !source.End.IsZero():
		return nil, api.Refuse("InvalidParameterValue", "The capacity reservation %s is interruptible, a capacity block or has an end date.", source.ID)
	case source.Total-svc.used(source) < n:
		return nil, api.Refuse("InvalidParameterValue", "The capacity reservation %s has only %d instances available.", source.ID, source.Total-svc.used(source))
	case in.Dry:
		return nil, api.ErrDryRun()
	}
	source.Total -= n
	svc.reservations = append(svc.reservations, &Reservation{ID: svc.account.NewID("cr"), Type: source.Type, Zone: source.Zone, Total: n, Interruptible: true,
		Targeted: true, Tags: tags, lifecycle: lifecycle{created: in.Now, request: ec2query.RequestOf(in), source: source.ID}})
	return interruptibleElements(source, n), nil
}

func interruptibleElements(source *Reservation, n int) []query.Element {
	return []query.Element{query.Text("sourceCapacityReservationId", source.ID), query.Int("targetInstanceCount", n), query.Text("status", "active"), query.Text("interruptionType", "adhoc")}
}

// reservationTags reads TagSpecifications, as CreateCapacityReservation names
// them.
func reservationTags(f query.Form) (map[string]string, error) {
	return ec2query.TagsIn(f.Each("TagSpecifications"), "capacity-reservation")
}
