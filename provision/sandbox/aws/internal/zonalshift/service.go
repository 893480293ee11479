// Package zonalshift is the zonal shift of the Application Recovery Controller:
// shifts of the cluster away from a zone, which only the emulator starts. Start
// with Service.
package zonalshift

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is the zonal shift of one account.
type Service struct {
	account *api.Account
	cluster Cluster
	shifts  []shift
}

// Cluster is the EKS cluster whose traffic is shifted.
type Cluster interface {
	// Tags are those of the cluster.
	Tags() map[string]string
}

// New has no shifts.
func New(account *api.Account, cluster Cluster) *Service {
	return &Service{account: account, cluster: cluster}
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.shifts = slices.Clone(svc.shifts)
	return &out
}

// Table is what the service can do here.
func (svc *Service) Table() api.Table {
	return api.Table{
		Operations: map[string]api.Operation{operation: {Read: true, Run: svc.getManagedResource}},
		Authorizations: map[string]api.Authorization{operation: func(in *api.Call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{{Action: "arc-zonal-shift:" + operation, Resource: in.Segment(1), Tags: svc.cluster.Tags()}}
		}},
	}
}

// operation is the only one.
const operation = "GetManagedResource"

// ShiftAway starts a shift of the cluster away from a zone, for so long.
func (svc *Service) ShiftAway(zoneID string, d time.Duration) {
	now := svc.account.Clock.Now()
	svc.shifts = append(svc.shifts, shift{zoneID, now, now.Add(d)})
}

// shift is a zonal shift: traffic kept away from a zone for a time.
type shift struct {
	zoneID          string
	starts, expires time.Time
}

// Route names the operation of a method and an escaped path, "" for none.
func Route(method, path string) string {
	if id, ok := strings.CutPrefix(path, "/managedresources/"); ok && method == http.MethodGet && id != "" && !strings.Contains(id, "/") {
		return operation
	}
	return ""
}

func (svc *Service) getManagedResource(in *api.Call) (any, error) {
	// The path is escaped, so the slash in an ARN is no separator.
	id, err := url.PathUnescape(strings.TrimPrefix(in.Target, http.MethodGet+" /managedresources/"))
	if arn := svc.account.ARN("eks", "cluster/"+svc.account.Cluster); err != nil || id != arn {
		return nil, api.NewError(http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf("The managed resource %s was not found.", id))
	}
	shifts := []map[string]any{}
	for n, s := range svc.shifts {
		if !in.Now.Before(s.expires) {
			continue
		}
		shifts = append(shifts, map[string]any{
			"appliedStatus": "APPLIED", "awayFrom": s.zoneID, "comment": "emulated", "expiryTime": s.expires.Unix(), "startTime": s.starts.Unix(),
			"resourceIdentifier": id, "zonalShiftId": fmt.Sprintf("shift-%d", n+1), "shiftType": "ZONAL_SHIFT",
		})
	}
	return map[string]any{"arn": id, "name": svc.account.Cluster, "appliedWeights": map[string]float64{}, "zonalShifts": shifts, "autoshifts": []any{}}, nil
}
