package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// Zone is one availability zone.
type Zone struct {
	// Region is the zone's region, "eu-west-1".
	Region string
	// Name is what an account calls the zone, "eu-west-1a".
	Name string
	// ID names the physical zone in every account, "euw1-az1". In the older regions
	// EC2 deals names out anew for each account; the pairs here are those of one
	// plausible account, in order.
	ID string
}

// Regions returns the regions whose zones are in the catalog, sorted.
func Regions() []string {
	return []string{
		"ap-northeast-2", "ap-southeast-3", "eu-central-1", "eu-west-1",
		"us-east-1", "us-east-2", "us-west-2",
	}
}

// Zones returns three zones of the region, sorted by name. Larger regions have
// more; three is what a cluster commonly spans. A region that is not in [Regions]
// is an error that names those which are.
func Zones(region string) ([]Zone, error) {
	if !slices.Contains(Regions(), region) {
		return nil, fmt.Errorf("listing zones: region %q is not one of %s", region, strings.Join(Regions(), ", "))
	}
	zones := make([]Zone, 0, 3)
	for i, letter := range []string{"a", "b", "c"} {
		zones = append(zones, Zone{Region: region, Name: region + letter, ID: fmt.Sprintf("%s-az%d", shortRegion(region), i+1)})
	}
	return zones, nil
}

// shortRegion abbreviates a region as zone ids do: "ap-northeast-2" is "apne2".
func shortRegion(region string) string {
	parts := strings.Split(region, "-")
	direction := parts[1]
	for _, half := range []string{"north", "south"} {
		if rest, ok := strings.CutPrefix(direction, half); ok && rest != "" {
			return parts[0] + half[:1] + rest[:1] + parts[2]
		}
	}
	return parts[0] + direction[:1] + parts[2]
}
