package ec2

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Offering is an instance type in a zone under a capacity type; an empty field
// stands for all.
type Offering struct {
	Type         string
	Zone         string
	CapacityType string // on-demand, spot, capacity-block or reserved-capacity
}

func (o Offering) covers(kind, zone, capacityType string) bool {
	return (o.Type == "" || o.Type == kind) && (o.Zone == "" || o.Zone == zone) && (o.CapacityType == "" || o.CapacityType == capacityType)
}

// limit bounds how many instances of an offering may be alive, or refuses all.
type limit struct {
	of   Offering
	most int
	code string // refuse everything with this code
}

// capacity is what is for sale, and the fleets that were made, by client token.
type capacity struct {
	limits []limit
	fleets map[string]*fleetResponse
}

// fleetResponse is kept so that a repeated request launches nothing again.
type fleetResponse struct {
	at     time.Time
	params string
	nodes  []query.Element
}

// keep keeps a result for an hour; a client repeats within seconds.
func (m *capacity) keep(token string, a *fleetResponse) {
	maps.DeleteFunc(m.fleets, func(_ string, old *fleetResponse) bool { return a.at.Sub(old.at) > time.Hour })
	m.fleets[token] = a
}

// SetCapacity bounds how many instances of the offering may be alive at once;
// a launch beyond that gets InsufficientInstanceCapacity. Below zero the bound
// is lifted. Bounds with empty fields hold for the sum over what they cover.
func (svc *Service) SetCapacity(o Offering, most int) error {
	return svc.setLimit(o, limit{of: o, most: most}, most < 0)
}

// Refuse makes every launch of the offering fail with an EC2 error code, such
// as MaxSpotInstanceCountExceeded or VcpuLimitExceeded; "" lifts it.
func (svc *Service) Refuse(o Offering, code string) error {
	return svc.setLimit(o, limit{of: o, code: code}, code == "")
}

func (svc *Service) setLimit(o Offering, l limit, lift bool) error {
	if o.Type != "" {
		if _, err := svc.offers.Type(o.Type); err != nil {
			return fmt.Errorf("limiting capacity: no instance type %q in the catalogue", o.Type)
		}
	}
	if _, ok := svc.offers.Zone(o.Zone); o.Zone != "" && !ok {
		return fmt.Errorf("limiting capacity: no zone %q in %s", o.Zone, svc.account.Region)
	}
	if o.CapacityType != "" && !slices.Contains([]string{offerings.OnDemand, offerings.Spot, offerings.CapacityBlock, offerings.Reserved}, o.CapacityType) {
		return fmt.Errorf("limiting capacity: no capacity type %q", o.CapacityType)
	}
	svc.capacity.limits = slices.DeleteFunc(svc.capacity.limits, func(have limit) bool { return have.of == o })
	if !lift {
		svc.capacity.limits = append(svc.capacity.limits, l)
	}
	return nil
}

// remaining is how many more instances of the offering can start, and with which
// code the next one is refused.
func (svc *Service) remaining(kind, zone, capacityType string) (int, string) {
	free, code := 1<<30, ""
	for _, l := range svc.capacity.limits {
		if !l.of.covers(kind, zone, capacityType) {
			continue
		}
		if l.code != "" {
			return 0, l.code
		}
		alive := 0
		for _, i := range svc.instances {
			if i.State.alive() && l.of.covers(i.Type, i.Zone, i.CapacityType) {
				alive++
			}
		}
		if left := max(l.most-alive, 0); left < free {
			free, code = left, "InsufficientInstanceCapacity"
		}
	}
	return free, code
}

// launchError phrases a launch error as EC2 does.
func launchError(code, kind, zone string) string {
	switch code {
	case "InsufficientInstanceCapacity":
		return fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", kind, zone)
	case "MaxSpotInstanceCountExceeded":
		return "Max spot instance count exceeded"
	case "VcpuLimitExceeded":
		return fmt.Sprintf("You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket that %s belongs to.", kind)
	case "UnfulfillableCapacity":
		return "Unable to fulfill capacity due to your request configuration."
	case "Unsupported":
		return fmt.Sprintf("Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", kind, zone)
	case "ReservationCapacityExceeded":
		return "The requested reservation does not have sufficient compatible and available capacity for this request."
	case "MaxFleetCountExceeded":
		return "Max fleet count exceeded"
	}
	return fmt.Sprintf("%s in %s was refused with %s.", kind, zone, code)
}
