package get

import (
	"fmt"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
)

// USD is what something costs, in US dollars an hour: the least and the most, which differ for
// spot instances, of whose prices the catalog only has the bounds.
type USD struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// Approximate is true where prices of another region stand in for those of the region.
	Approximate bool `json:"approximate,omitempty"`
}

// priceOf is the catalog's price of an instance; nil where it has none. Reserved capacity is paid
// for at the on-demand rate.
func priceOf(types *catalog.Catalog, region, instanceType, capacityType string) *USD {
	price, err := types.OnDemand(region, instanceType)
	if err != nil {
		return nil
	}
	out := &USD{Min: price.USDPerHour, Max: price.USDPerHour, Approximate: price.Basis != catalog.HomeRegion}
	if capacityType == karpv1.CapacityTypeSpot {
		out.Min *= catalog.LowestSpot
	}
	return out
}

// add adds the price of a node. A sum without one of its prices is not known; a node that was not
// launched yet costs nothing.
func (u *USD) add(n Node) *USD {
	switch {
	case u == nil || n.InstanceType == "":
		return u
	case n.USDPerHour == nil:
		return nil
	}
	return &USD{Min: u.Min + n.USDPerHour.Min, Max: u.Max + n.USDPerHour.Max, Approximate: u.Approximate || n.USDPerHour.Approximate}
}

// IdleUSD adds up, by node, the share of its price that is of GPUs which no pod requests; nil where it is not known.
func (r *Report) IdleUSD() *USD {
	out := &USD{}
	for _, n := range r.Nodes {
		if n.GPUs.Idle == nil || n.GPUs.Allocatable == nil {
			return nil
		}
		if *n.GPUs.Idle == 0 || *n.GPUs.Allocatable == 0 {
			continue
		}
		if n.USDPerHour == nil {
			return nil
		}
		share := float64(*n.GPUs.Idle) / float64(*n.GPUs.Allocatable)
		out.Min += n.USDPerHour.Min * share
		out.Max += n.USDPerHour.Max * share
		out.Approximate = out.Approximate || n.USDPerHour.Approximate
	}
	return out
}

// String is the price with cents, or the range of it, with ~ before an approximate one; - where it is not
// known. Only what costs nothing is 0.00.
func (u *USD) String() string {
	if u == nil {
		return "-"
	}
	text := cents(u.Max)
	if least := cents(u.Min); least != text {
		text = least + "-" + text
	}
	if u.Approximate {
		return "~" + text
	}
	return text
}

// cents is a price with cents; one below a cent is not rounded to nothing.
func cents(usd float64) string {
	const cent = 0.01
	if usd > 0 && usd < cent {
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", usd)
}
