package aws

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Reservation is capacity that the account has paid for.
type Reservation struct {
	ID            string // "cr-…"; empty lets AddReservation choose
	Type          string // instance type
	Zone          string
	Total         int
	CapacityBlock bool // else an on-demand capacity reservation
	Interruptible bool
	Targeted      bool      // only launches that name it; else open to all that match
	End           time.Time // zero means unlimited
	Tags          map[string]string

	origin
}

// origin is where a reservation comes from, and whether it was cancelled.
type origin struct {
	created   time.Time
	cancelled bool
	token     string // of the request that made it
	source    string // id of the reservation that lends it its capacity
}

// PlacementGroup is a placement group of the account.
type PlacementGroup struct {
	ID         string // "pg-…"; empty lets AddPlacementGroup choose
	Name       string
	Strategy   string // cluster, partition or spread
	Partitions int    // of strategy partition
	Tags       map[string]string
}

// AddReservation gives the account a capacity reservation and returns its id.
func (c *Cloud) AddReservation(r Reservation) (string, error) {
	if _, ok := c.offers.catalog.Lookup(r.Type); !ok || r.Total < 1 {
		return "", fmt.Errorf("adding a reservation of %d %q: it needs an instance type of the catalogue and at least one instance", r.Total, r.Type)
	}
	if _, ok := c.offers.zone(r.Zone); !ok {
		return "", fmt.Errorf("adding a reservation: no zone %q in %s", r.Zone, c.account.Region)
	}
	c.account.Lock()
	defer c.account.Unlock()
	if r.ID == "" {
		r.ID = c.account.NewID("cr")
	}
	r.Tags, r.created = api.WithTags(r.Tags), c.account.Clock.Now()
	c.st.reservations = append(c.st.reservations, &r)
	return r.ID, nil
}

// AddPlacementGroup gives the account a placement group and returns its id.
func (c *Cloud) AddPlacementGroup(g PlacementGroup) (string, error) {
	if g.Name == "" || !slices.Contains([]string{"cluster", "partition", "spread"}, g.Strategy) {
		return "", fmt.Errorf("adding placement group %q with strategy %q: it needs a name and one of cluster, partition, spread", g.Name, g.Strategy)
	}
	c.account.Lock()
	defer c.account.Unlock()
	if g.ID == "" {
		g.ID = c.account.NewID("pg")
	}
	g.Tags = api.WithTags(g.Tags)
	c.st.groups = append(c.st.groups, &g)
	return g.ID, nil
}

// used counts the reservation's instances.
func (st *state) used(r *Reservation) int {
	n := 0
	for _, i := range st.instances {
		if i.reservation == r.ID && i.State.alive() {
			n++
		}
	}
	return n
}

func (r *Reservation) state(now time.Time) string {
	switch {
	case r.cancelled:
		return "cancelled"
	case !r.End.IsZero() && !now.Before(r.End):
		return "expired"
	}
	return "active"
}

// reserve finds the reservation of a launch: the one its template names, or an
// open one that matches and has room. "" means none, which is right unless one
// was named.
func (in *call) reserve(l launch) (string, *api.Error) {
	const spec = "CapacityReservationSpecification."
	named := l.data.Get(spec + "CapacityReservationTarget.CapacityReservationId")
	preference := l.data.Get(spec + "CapacityReservationPreference")
	exists := false
	for _, r := range in.st.reservations {
		exists = exists || r.ID == named
		if named != "" && r.ID != named || named == "" && (preference == "none" || !r.openTo(l)) {
			continue
		}
		if in.hasCapacity(r, l) {
			return r.ID, nil
		}
	}
	switch {
	case named == "" && preference != "capacity-reservations-only":
		return "", nil
	case named != "" && !exists:
		return "", api.NewError(http.StatusBadRequest, "InvalidCapacityReservationId.NotFound", fmt.Sprintf("The capacity reservation ID '%s' does not exist", named))
	}
	return "", api.NewError(http.StatusBadRequest, "ReservationCapacityExceeded", refusal("ReservationCapacityExceeded", l.kind.Name, l.zone.Name))
}

// openTo tells whether launches use the reservation without naming it.
func (r *Reservation) openTo(l launch) bool {
	return !r.Targeted && !r.CapacityBlock && l.capacityType == onDemand
}

func (in *call) hasCapacity(r *Reservation, l launch) bool {
	return r.Type == l.kind.Name && r.Zone == l.zone.Name && r.state(in.Now) == "active" && in.st.used(r) < r.Total
}

func describeReservations(in *call) (any, error) {
	ids := in.Form.List("CapacityReservationId")
	has := func(id string) bool {
		return slices.ContainsFunc(in.st.reservations, func(r *Reservation) bool { return r.ID == id })
	}
	if id := missing(ids, has); id != "" {
		return nil, api.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
	}
	found, err := choose(in, in.st.reservations, attributes[*Reservation]{
		"state":                   one(func(r *Reservation) string { return r.state(in.Now) }),
		"owner-id":                one(func(*Reservation) string { return in.cloud.account.ID }),
		"instance-match-criteria": one((*Reservation).match),
		"instance-type":           one(func(r *Reservation) string { return r.Type }),
		"availability-zone":       one(func(r *Reservation) string { return r.Zone }),
	}, func(r *Reservation) map[string]string { return r.Tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, r := range found {
		if len(ids) > 0 && !slices.Contains(ids, r.ID) {
			continue
		}
		rows = append(rows, api.NewRow(r.ID, query.Group("item", in.reservationElements(r)...)))
	}
	return in.page("capacityReservationSet", rows, pageLimits{1, 1000})
}

// match is which launches use the reservation.
func (r *Reservation) match() string {
	return map[bool]string{true: "targeted", false: "open"}[r.Targeted]
}

func (in *call) reservationElements(r *Reservation) []query.Element {
	kind, lent := "default", query.Element{}
	if r.CapacityBlock {
		kind = "capacity-block"
	}
	end := []query.Element{query.Text("endDateType", "unlimited")}
	if !r.End.IsZero() {
		end = []query.Element{query.Text("endDateType", "limited"), query.Text("endDate", stamp(r.End))}
	}
	if r.source != "" {
		lent = query.Group("interruptionInfo", query.Text("sourceCapacityReservationId", r.source), query.Text("interruptionType", "adhoc"))
	}
	zone, _ := in.cloud.offers.zone(r.Zone)
	return append(end,
		query.Text("capacityReservationId", r.ID), query.Text("capacityReservationArn", in.cloud.ec2ARN(r.ID)), query.Text("ownerId", in.cloud.account.ID),
		query.Text("instanceType", r.Type), query.Text("instancePlatform", "Linux/UNIX"), query.Text("availabilityZone", r.Zone), query.Text("availabilityZoneId", zone.ID),
		query.Text("tenancy", "default"), query.Int("totalInstanceCount", r.Total), query.Int("availableInstanceCount", r.Total-in.st.used(r)),
		query.Text("state", r.state(in.Now)), query.Text("createDate", stamp(r.created)), query.Text("startDate", stamp(r.created)),
		query.Bool("ebsOptimized", false), query.Bool("ephemeralStorage", false), query.Text("instanceMatchCriteria", r.match()),
		query.Text("reservationType", kind), query.Bool("interruptible", r.Interruptible), lent, tagSet(r.Tags))
}

func describeGroups(in *call) (any, error) {
	ids, names := in.Form.List("GroupId"), in.Form.List("GroupName")
	for _, want := range append(slices.Clone(ids), names...) {
		if !slices.ContainsFunc(in.st.groups, func(g *PlacementGroup) bool { return g.ID == want || g.Name == want }) {
			return nil, api.Refuse("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", want)
		}
	}
	found, err := choose(in, in.st.groups, attributes[*PlacementGroup]{
		"state":      one(func(*PlacementGroup) string { return "available" }),
		"strategy":   one(func(g *PlacementGroup) string { return g.Strategy }),
		"group-name": one(func(g *PlacementGroup) string { return g.Name }),
	}, func(g *PlacementGroup) map[string]string { return g.Tags })
	if err != nil {
		return nil, err
	}
	var rows []query.Element
	for _, g := range found {
		if len(ids) > 0 && !slices.Contains(ids, g.ID) || len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		rows = append(rows, query.Group("item", in.cloud.groupElements(g)...))
	}
	return []query.Element{query.List("placementGroupSet", "item", rows)}, nil
}
