package get

import (
	"fmt"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/history"
)

// USD is what something costs, in US dollars an hour: the least and the most, which differ for
// spot instances without a recorded price, since the catalog only has the bounds of theirs.
type USD struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// Approximate is true where a price is that of another region, or the maximum of a spot price.
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

// Priced is the node with its recorded price; where it has none, as it is.
func (n Node) Priced(recorded history.NodeClaim) Node {
	if price := recorded.USDPerHour; price != nil {
		n.USDPerHour = &USD{Min: *price, Max: *price, Approximate: recorded.PriceBasis.Approximate()}
	}
	return n
}

// Priced is the report with the recorded price of each node that the history has, in place of the catalog's. The sums of pools and of
// the cluster are those of the nodes. The report itself stays as it is.
func (r Report) Priced(h history.History) Report {
	recorded, found := h.Running(), false
	nodes := slices.Clone(r.Nodes)
	for i, n := range nodes {
		of := recorded[n.NodeClaim]
		nodes[i], found = n.Priced(of), found || of.USDPerHour != nil
	}
	if !found {
		return r
	}
	byPool := map[string][]Node{}
	for _, n := range nodes {
		byPool[n.NodePool] = append(byPool[n.NodePool], n)
	}
	r.Nodes, r.Pools = nodes, slices.Clone(r.Pools)
	for i, p := range r.Pools {
		if p.Nodes != nil {
			r.Pools[i].USDPerHour = costOf(byPool[p.Name])
		}
	}
	if r.Summary != nil && r.Summary.Nodes != nil {
		s := *r.Summary
		s.USDPerHour, s.IdleUSDPerHour, r.Summary = costOf(nodes), r.IdleUSD(), &s
	}
	return r
}

// costOf is what nodes cost together; nil where the price of one that was launched is not known.
func costOf(nodes []Node) *USD {
	out := &USD{}
	for _, n := range nodes {
		out = out.add(n)
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
