package planning

import (
	"testing"

	"github.com/poolwright/poolwright/cmd/internal/prices"
)

// Capacity reservations are requested of the account alone: elsewhere the status of a class has them.
func TestAPlanReadsOfAWSWhatItsSourceHas(t *testing.T) {
	for name, c := range map[string]struct {
		source                  *prices.Source
		offerings, reservations bool
	}{
		"without a source": {nil, false, false},
		"from a file":      {&prices.Source{File: "prices.yaml"}, true, false},
		"from the account": {&prices.Source{Account: true}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Request{Prices: c.source}).aws()
			if offerings, reservations := got.Offerings != nil, got.CapacityReservations != nil; offerings != c.offerings || reservations != c.reservations {
				t.Errorf("offerings %t, reservations %t", offerings, reservations)
			}
		})
	}
}
