package forecast

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// Sums by prices that are older than a week are marked where they are first read, in the headline, and where their source is named.
func TestSumsByOldPricesAreMarked(t *testing.T) {
	for name, c := range map[string]struct {
		of   provision.Price
		want bool
	}{
		"today's": {provision.Price{CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-20"}, false},
		"old":     {provision.Price{CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-02", Outdated: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			of := provision.Cost{After: provision.Amount{OnDemand: 1.5}, Prices: []provision.Price{cleanPrice(c.of)}}
			phrases := plainText().Money(of)
			if len(phrases) == 0 || strings.Contains(phrases[0].Text, "≈") != c.want {
				t.Errorf("the headline is %v", phrases)
			}
			source := plainText().withPriceSources(section.Section{}, of.Prices).Lines
			if len(source) != 1 || strings.Contains(source[0], " (≈), older than 7 days, ") != c.want || !strings.Contains(source[0], c.of.Date) {
				t.Errorf("the source is %q", source)
			}
		})
	}
}
