package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
)

func TestWhatNodesCostBesideTheirInstances(t *testing.T) {
	const small = "{volumeSize: 73Gi, volumeType: gp3}}]\n  associatePublicIPAddress: true"
	declare := func(volume string) string {
		return strings.Replace(class, "{volumeSize: 50Gi, volumeType: gp3}}]", volume, 1)
	}
	large := strings.Replace(small, "73Gi", "146Gi", 1)
	// A month of 73 GiB is $5.84, an hour $0.008.
	for name, tt := range map[string]struct {
		old, new, pool string
		now, after     provision.NonCompute
	}{
		"three nodes that stay":            {small, small, pool, provision.NonCompute{Volumes: 0.024, PublicIPv4: 0.015}, provision.NonCompute{Volumes: 0.024, PublicIPv4: 0.015}},
		"replaced nodes have the new one":  {small, large, pool, provision.NonCompute{Volumes: 0.024, PublicIPv4: 0.015}, provision.NonCompute{Volumes: 0.048, PublicIPv4: 0.015}},
		"of a pool that goes none is left": {small, small, "", provision.NonCompute{Volumes: 0.024, PublicIPv4: 0.015}, provision.NonCompute{}},
	} {
		t.Run(name, func(t *testing.T) {
			after := read(t, declare(tt.new))
			if tt.pool != "" {
				after = read(t, tt.pool, declare(tt.new))
			}
			got := compare(t, three(t, pool, declare(tt.old)), after).Cost
			if diff := cmp.Diff([]provision.NonCompute{tt.now, tt.after}, []provision.NonCompute{got.NonComputeNow, got.NonComputeAfter}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
