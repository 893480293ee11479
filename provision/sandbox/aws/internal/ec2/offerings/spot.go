package offerings

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/catalog"
)

// spotPrice is what an hour of a spot instance costs in the emulated account. AWS publishes no list of
// spot prices, so these are made up, for the sandbox alone:
//
//	on-demand price × base of the category × family factor × zone factor
//
// The base is 0.30 for g and gr, 0.35 for t, 0.45 for p, 0.38 for the rest. The factors are hashes
// of family and of family and zone, within ±10 % and ±5 %, so that zones differ, sizes of a
// family keep their order, and the same input has the same result for ever. The result is never
// above 0.6 of on-demand; like EC2's, it has four decimals.
//
// A type without spot capacity or without an on-demand price is an error.
func spotPrice(types *catalog.Catalog, zone catalog.Zone, name string) (float64, error) {
	onDemand, err := types.OnDemand(zone.Region, name)
	if err != nil {
		return 0, err
	}
	t, _ := types.Lookup(name)
	if !slices.Contains(t.UsageClasses, Spot) {
		return 0, fmt.Errorf("pricing instance type %q: EC2 offers no spot capacity of it", name)
	}
	fraction := spotBase(t.Family()) * (1 + 0.10*spread(t.Family())) * (1 + 0.05*spread(t.Family(), zone.Name))
	return max(math.Round(onDemand.USDPerHour*fraction*1e4)/1e4, 1e-4), nil
}

func spotBase(family string) float64 {
	switch family[0] {
	case 'g':
		return 0.30
	case 't':
		return 0.35
	case 'p':
		return 0.45
	}
	return 0.38
}

// spread maps text to a number in [-1, 1) that never changes. A cryptographic hash
// because zones differ in their last letter only, which FNV barely spreads.
func spread(texts ...string) float64 {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11)/(1<<52) - 1
}
