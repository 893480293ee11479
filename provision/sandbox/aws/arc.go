package aws

import (
	"fmt"
	"time"
)

// ShiftAway starts a zonal shift of the cluster away from a zone, named by
// name or id, for so long.
func (c *Cloud) ShiftAway(zone string, d time.Duration) error {
	z, ok := c.offers.Zone(zone)
	if !ok {
		return fmt.Errorf("shifting away from zone %q: there is none in %s", zone, c.account.Region)
	}
	c.account.Lock()
	defer c.account.Unlock()
	c.st.shifts.ShiftAway(z.ID, d)
	return nil
}
