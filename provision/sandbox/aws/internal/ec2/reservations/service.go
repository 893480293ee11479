// Package reservations are the account's capacity reservations and capacity blocks:
// which launches use them, and what is left of them. They cost nothing by
// themselves. Start with Service.
package reservations

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
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

	lifecycle
}

// lifecycle is where a reservation comes from, and whether it was cancelled.
type lifecycle struct {
	created   time.Time
	cancelled bool
	request   ec2query.Request // that made it
	source    string           // id of the reservation that lends it its capacity
}

// Launch is what a reservation must match.
type Launch struct {
	Type, Zone, CapacityType string
	Data                     query.Form // launch parameters
}

// Instances are those that run in reservations.
type Instances interface {
	// InReservation counts the living instances in a reservation.
	InReservation(id string) int
}

// Service has the reservations of the account.
type Service struct {
	account      *api.Account
	offers       *offerings.Service
	instances    Instances
	reservations []*Reservation
}

// New has no reservations.
func New(account *api.Account, offers *offerings.Service, instances Instances) *Service {
	return &Service{account: account, offers: offers, instances: instances}
}

// Clone copies deep enough that nothing later shows in it, with the instances of
// that time.
func (svc *Service) Clone(instances Instances) *Service {
	out := *svc
	out.instances, out.reservations = instances, api.Clones(svc.reservations)
	for _, r := range out.reservations {
		r.Tags = maps.Clone(r.Tags)
	}
	return &out
}

// Operations are those of EC2 on capacity reservations.
func (svc *Service) Operations() map[string]api.Operation {
	tags := func(list string, also ...string) []string {
		return append(also, list+".#.ResourceType", list+".#.Tag.#.Key", list+".#.Tag.#.Value")
	}
	return map[string]api.Operation{
		"DescribeCapacityReservations": {Params: []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken", "CapacityReservationId.#"}, Read: true, Run: svc.describeReservations},
		"CreateCapacityReservation": {Params: tags("TagSpecifications", "ClientToken", "InstanceType", "InstancePlatform", "AvailabilityZone", "AvailabilityZoneId",
			"InstanceCount", "EndDate", "EndDateType", "InstanceMatchCriteria", "Tenancy"), Run: svc.createReservation},
		"CancelCapacityReservation":                        {Params: []string{"CapacityReservationId"}, Run: svc.cancelReservation},
		"CreateInterruptibleCapacityReservationAllocation": {Params: tags("TagSpecification", "ClientToken", "CapacityReservationId", "InstanceCount"), Run: svc.allocateInterruptible},
	}
}

// Add gives the account a reservation and returns its id.
func (svc *Service) Add(r Reservation) (string, error) {
	if _, err := svc.offers.Type(r.Type); err != nil || r.Total < 1 {
		return "", fmt.Errorf("adding a reservation of %d %q: it needs an instance type of the catalogue and at least one instance", r.Total, r.Type)
	}
	if _, ok := svc.offers.Zone(r.Zone); !ok {
		return "", fmt.Errorf("adding a reservation: no zone %q in %s", r.Zone, svc.account.Region)
	}
	if r.ID == "" {
		r.ID = svc.account.NewID("cr")
	}
	r.Tags, r.created = api.WithTags(r.Tags), svc.account.Clock.Now()
	svc.reservations = append(svc.reservations, &r)
	return r.ID, nil
}

// Interruptible reports whether AWS may take a reservation's instances back.
func (svc *Service) Interruptible(id string) bool {
	return slices.ContainsFunc(svc.reservations, func(r *Reservation) bool { return r.ID == id && r.Interruptible })
}

// Tags are the live ones of a reservation, nil for an unknown id.
func (svc *Service) Tags(id string) map[string]string {
	for _, r := range svc.reservations {
		if r.ID == id {
			return r.Tags
		}
	}
	return nil
}

// used counts the reservation's instances.
func (svc *Service) used(r *Reservation) int { return svc.instances.InReservation(r.ID) }

func (r *Reservation) state(now time.Time) string {
	switch {
	case r.cancelled:
		return "cancelled"
	case !r.End.IsZero() && !now.Before(r.End):
		return "expired"
	}
	return "active"
}
