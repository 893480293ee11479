package reservations

import (
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) describeReservations(in *api.Call) (any, error) {
	ids := in.Form.List("CapacityReservationId")
	has := func(id string) bool {
		return slices.ContainsFunc(svc.reservations, func(r *Reservation) bool { return r.ID == id })
	}
	if id := ec2query.Missing(ids, has); id != "" {
		return nil, api.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
	}
	found, err := ec2query.Choose(in, svc.reservations, ec2query.Attributes[*Reservation]{
		"state":                   ec2query.One(func(r *Reservation) string { return r.state(in.Now) }),
		"owner-id":                ec2query.One(func(*Reservation) string { return svc.account.ID }),
		"instance-match-criteria": ec2query.One((*Reservation).match),
		"instance-type":           ec2query.One(func(r *Reservation) string { return r.Type }),
		"availability-zone":       ec2query.One(func(r *Reservation) string { return r.Zone }),
	}, func(r *Reservation) map[string]string { return r.Tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, r := range found {
		if len(ids) > 0 && !slices.Contains(ids, r.ID) {
			continue
		}
		rows = append(rows, api.NewRow(r.ID, query.Group("item", svc.reservationElements(in, r)...)))
	}
	return ec2query.Page(in, "capacityReservationSet", rows, 1, 1000)
}

// match is which launches use the reservation.
func (r *Reservation) match() string {
	return map[bool]string{true: "targeted", false: "open"}[r.Targeted]
}

func (svc *Service) reservationElements(in *api.Call, r *Reservation) []query.Element {
	kind, shared := "default", query.Element{}
	if r.CapacityBlock {
		kind = "capacity-block"
	}
	end := []query.Element{query.Text("endDateType", "unlimited")}
	if !r.End.IsZero() {
		end = []query.Element{query.Text("endDateType", "limited"), query.Text("endDate", ec2query.Stamp(r.End))}
	}
	if r.source != "" {
		shared = query.Group("interruptionInfo", query.Text("sourceCapacityReservationId", r.source), query.Text("interruptionType", "adhoc"))
	}
	zone, _ := svc.offers.Zone(r.Zone)
	return append(end,
		query.Text("capacityReservationId", r.ID), query.Text("capacityReservationArn", ec2query.ARN(svc.account, r.ID)), query.Text("ownerId", svc.account.ID),
		query.Text("instanceType", r.Type), query.Text("instancePlatform", "Linux/UNIX"), query.Text("availabilityZone", r.Zone), query.Text("availabilityZoneId", zone.ID),
		query.Text("tenancy", "default"), query.Int("totalInstanceCount", r.Total), query.Int("availableInstanceCount", r.Total-svc.used(r)),
		query.Text("state", r.state(in.Now)), query.Text("createDate", ec2query.Stamp(r.created)), query.Text("startDate", ec2query.Stamp(r.created)),
		query.Bool("ebsOptimized", false), query.Bool("ephemeralStorage", false), query.Text("instanceMatchCriteria", r.match()),
		query.Text("reservationType", kind), query.Bool("interruptible", r.Interruptible), shared, ec2query.TagSet(r.Tags))
}
