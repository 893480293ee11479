package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// shift is a zonal shift: traffic kept away from a zone for a time.
type shift struct {
	zoneID  string
	expires time.Time
}

// ShiftAway starts a zonal shift of the cluster away from a zone, named by
// name or id, for so long.
func (c *Cloud) ShiftAway(zone string, d time.Duration) error {
	z, ok := c.offers.zone(zone)
	if !ok {
		return fmt.Errorf("shifting away from zone %q: there is none in %s", zone, c.account.Region)
	}
	c.account.Lock()
	defer c.account.Unlock()
	c.st.eks.shifts = append(c.st.eks.shifts, shift{z.ID, c.account.Clock.Now().Add(d)})
	return nil
}

func arcRoute(method, path string) string {
	if id, ok := strings.CutPrefix(path, "/managedresources/"); ok && method == http.MethodGet && id != "" && !strings.Contains(id, "/") {
		return "GetManagedResource"
	}
	return ""
}

func arcOperations() map[string]operation {
	return map[string]operation{"GetManagedResource": {read: true, run: getManagedResource}}
}

func getManagedResource(in *call) (any, error) {
	// The path is escaped, so the slash in an ARN is no separator.
	id, err := url.PathUnescape(strings.TrimPrefix(in.Target, http.MethodGet+" /managedresources/"))
	if arn := in.cloud.clusterARN(); err != nil || id != arn {
		return nil, api.NewError(http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf("The managed resource %s was not found.", id))
	}
	shifts := []map[string]any{}
	for n, s := range in.st.eks.shifts {
		if !in.Now.Before(s.expires) {
			continue
		}
		shifts = append(shifts, map[string]any{
			"appliedStatus": "APPLIED", "awayFrom": s.zoneID, "comment": "emulated", "expiryTime": s.expires.Unix(), "startTime": in.Now.Unix(),
			"resourceIdentifier": id, "zonalShiftId": fmt.Sprintf("shift-%d", n+1), "shiftType": "ZONAL_SHIFT",
		})
	}
	return map[string]any{"arn": id, "name": in.st.cluster.Name, "appliedWeights": map[string]float64{}, "zonalShifts": shifts, "autoshifts": []any{}}, nil
}
