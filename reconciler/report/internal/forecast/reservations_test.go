package forecast

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
)

func TestEndsOfReservations(t *testing.T) {
	end := time.Date(2026, 12, 1, 11, 30, 0, 0, time.UTC)
	block := provision.ReservationEnd{ID: "cr-a", Type: "capacity-block", Pools: []string{"gpu"}, End: end, NodesLeave: end.Add(-provision.CapacityBlockExpiration)}
	used, odcr := block, block
	used.Nodes = 4
	odcr.Type, odcr.Pools, odcr.NodesLeave = "default", []string{"gpu", "training"}, time.Time{}
	for name, tt := range map[string]struct {
		of   provision.ReservationEnd
		want string
	}{
		"of a Capacity Block with nodes": {used,
			"Capacity Block cr-a of pool gpu ends 2026-12-01 11:30 UTC: Karpenter deletes its 4 nodes at 2026-12-01 10:50 UTC, 40 minutes before"},
		"of a Capacity Block without nodes": {block,
			"Capacity Block cr-a of pool gpu ends 2026-12-01 11:30 UTC: Karpenter launches no node into it from 2026-12-01 10:50 UTC on"},
		"of an On-Demand Capacity Reservation": {odcr,
			"On-Demand Capacity Reservation cr-a of pools gpu, training ends 2026-12-01 11:30 UTC: its instances go on as On-Demand Instances, which pools that allow only reserved capacity replace"},
	} {
		t.Run(name, func(t *testing.T) {
			got := plainText().reservationEnds(&provision.Forecast{ReservationEnds: []provision.ReservationEnd{tt.of}})
			if diff := cmp.Diff([]string{tt.want}, got.Lines); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAFullReservationRequiresNoAction(t *testing.T) {
	reservation, pdb := provision.Blocker{Kind: "reservation"}, provision.Blocker{Kind: "pdb"}
	for name, tt := range map[string]struct {
		blockers []provision.Blocker
		want     bool
	}{
		"since its nodes go on":              {[]provision.Blocker{reservation}, false},
		"unless something else keeps a node": {[]provision.Blocker{reservation, pdb}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &provision.Forecast{Replaced: []provision.Node{{Pool: "gpu", Blockers: tt.blockers}}, Pools: []provision.Pool{{Name: "gpu", Disruption: provision.PoolDisruption{AllowedDisruptions: 1}}}}
			if got := plainText().RequiresAction(f); got != tt.want {
				t.Errorf("requires action: %t, want %t", got, tt.want)
			}
		})
	}
}
