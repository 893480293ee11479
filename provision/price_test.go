package provision_test

import (
	"fmt"
	"testing"

	"github.com/poolwright/poolwright/provision"
)

// Only what is none of the fixed texts is shown as whoever shows it has it.
func TestTheSourceOfAPriceHasItsBasisAndDate(t *testing.T) {
	quoted := func(s string) string { return fmt.Sprintf("%q", s) }
	for want, of := range map[string]provision.Price{
		`On-demand: AWS's price list of the region, "2026-11-20"`:                                              {CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-20"},
		`On-demand: AWS's price list of the region (≈), older than 7 days, "2026-11-02"`:                       {CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-02", Outdated: true},
		`Spot: EC2's spot price history, "2026-11-20"`:                                                         {CapacityType: "spot", Basis: "spot-price-history", Date: "2026-11-20"},
		`Spot: unknown, from 10 to 100 % of on-demand`:                                                         {CapacityType: "spot", Basis: provision.UnknownPrice},
		`On-demand: the shipped catalog (≈) of the region, "2026-10-28"`:                                       {CapacityType: "on-demand", Basis: "catalog", Date: "2026-10-28"},
		`On-demand: the shipped catalog (≈) of us-east-1, since the region's prices are unknown, "2026-10-28"`: {CapacityType: "on-demand", Basis: "other-region", Date: "2026-10-28"},
		`"reserved": "contract", "2026-10-28"`:                                                                 {CapacityType: "reserved", Basis: "contract", Date: "2026-10-28"},
	} {
		if got := of.Source(quoted); got != want {
			t.Errorf("%+v: %s, want %s", of, got, want)
		}
	}
}
