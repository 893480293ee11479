package aws

import (
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/placement"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
)

// Reservation is capacity that the account has paid for.
type Reservation = reservations.Reservation

// PlacementGroup is a placement group of the account.
type PlacementGroup = placement.Group

// AddReservation gives the account a capacity reservation and returns its id.
func (c *Cloud) AddReservation(r Reservation) (string, error) {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Reservations.Add(r)
}

// AddPlacementGroup gives the account a placement group and returns its id.
func (c *Cloud) AddPlacementGroup(g PlacementGroup) (string, error) {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.ec2.Placement.Add(g)
}
