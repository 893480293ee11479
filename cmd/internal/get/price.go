package get

import (
	"fmt"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
)

// USD is what something costs, in US dollars an hour: the least and the most, which differ for
// spot instances, of whose prices the catalog only has the bounds.
type USD struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// priceOf is the catalog's price of an instance; nil where it has none. Reserved capacity is paid
// for at the on-demand rate.
func priceOf(types *catalog.Catalog, region, instanceType, capacityType string) *USD {
	price, err := types.OnDemand(region, instanceType)
	if err != nil {
		return nil
	}
	if capacityType == karpv1.CapacityTypeSpot {
		return &USD{Least: price.USDPerHour * catalog.LowestSpot, Most: price.USDPerHour}
	}
	return &USD{Least: price.USDPerHour, Most: price.USDPerHour}
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
	return &USD{Least: u.Least + n.USDPerHour.Least, Most: u.Most + n.USDPerHour.Most}
}

// String is the price with cents, or the range of it; - where it is not known.
func (u *USD) String() string {
	switch {
	case u == nil:
		return "-"
	case u.Least == u.Most:
		return fmt.Sprintf("%.2f", u.Most)
	}
	return fmt.Sprintf("%.2f-%.2f", u.Least, u.Most)
}
