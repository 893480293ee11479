package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// nodesLimit is the resource in which limits count nodes.
const nodesLimit corev1.ResourceName = "nodes"

// ledger adds prices up and records where they are from.
type ledger struct {
	catalog *offerings.Catalog
	unknown snapshot.Unknowns
	prices  map[provision.Price]bool
	// known are the prices of which it is recorded where they are from.
	known map[recorded]bool
	// at is when the nodes are paid for, by which prices are outdated.
	at time.Time
}

// recorded is by what prices are from the same.
type recorded struct {
	capacity string
	basis    catalog.Basis
	atMost   bool
}

func newLedger(from *offerings.Catalog, unknown snapshot.Unknowns, at time.Time) *ledger {
	return &ledger{catalog: from, unknown: unknown, prices: map[provision.Price]bool{}, known: map[recorded]bool{}, at: at}
}

func (c *comparison) ledger() *ledger { return newLedger(c.catalog, c.unknown, c.before.Clock.Now()) }

// pay adds one node. What has no price was reported when it was read.
func (l *ledger) pay(to *provision.Amount, name, zone, capacity string) {
	price, err := l.catalog.Price(name, zone, capacity)
	if err != nil {
		l.unknown.Add(codePriceUnknown, "InstanceType/"+name, "Instance type %s: no price of it is known, so that it is left out of the costs.", name)
		to.Unpriced++
		return
	}
	switch {
	case price.AtMost:
		to.SpotAtMost += price.USDPerHour
	case capacity == karpv1.CapacityTypeSpot:
		to.Spot += price.USDPerHour
	default:
		capacity = karpv1.CapacityTypeOnDemand
		to.OnDemand += price.USDPerHour
	}
	l.record(capacity, price)
}

// record records where a price is from: that of a spot instance that is not known, from nowhere,
// and its bound from the on-demand price.
func (l *ledger) record(capacity string, price catalog.Price) {
	key := recorded{capacity, price.Basis, price.AtMost}
	if l.known[key] {
		return
	}
	l.known[key] = true
	if price.AtMost {
		l.prices[provision.Price{CapacityType: capacity, Basis: provision.UnknownPrice}] = true
		capacity = karpv1.CapacityTypeOnDemand
	}
	l.prices[provision.Price{
		CapacityType: capacity, Basis: string(price.Basis), Date: l.catalog.PriceDate(price.Basis), Outdated: l.catalog.IsOutdated(price.Basis, l.at),
	}] = true
}

func (l *ledger) sources() []provision.Price {
	out := []provision.Price{}
	for p := range l.prices {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b provision.Price) int {
		return strings.Compare(a.CapacityType+a.Basis, b.CapacityType+b.Basis)
	})
	return out
}

// replacementOffering is what a replaced node is reckoned to become for which that is not simulated: the same where that is
// still allowed, else the cheapest that holds as much; nil where nothing does.
func (c *comparison) replacementOffering(claim *karpv1.NodeClaim, pool *karpv1.NodePool) *offerings.Offering {
	kind, zone, capacity := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey]
	key := strings.Join([]string{pool.Name, kind, zone, capacity}, " ")
	if found, ok := c.replacementOfferings[key]; ok {
		return found
	}
	var best *offerings.Offering
	for _, o := range c.after.Offerings[pool.Name].Offerings {
		if o.InstanceType == kind && o.Zone == zone && o.CapacityType == capacity {
			best = &o
			break
		}
		if o.Precedes(best) && fits(o.Type.Capacity, claim.Status.Capacity) {
			best = &o
		}
	}
	c.replacementOfferings[key] = best
	return best
}

// fits compares processors and GPUs: memory differs by what a kernel keeps.
func fits(has, needs corev1.ResourceList) bool {
	for name, quantity := range needs {
		counted := name == corev1.ResourceCPU || strings.Contains(string(name), "/gpu")
		if have := has[name]; counted && have.Cmp(quantity) < 0 {
			return false
		}
	}
	return true
}

// minCost is what a pool costs without pods: nothing, or its replicas at the cheapest type.
func (c *comparison) minCost(pool *karpv1.NodePool, out *provision.Cost, book *ledger) {
	if pool.Spec.Replicas == nil || *pool.Spec.Replicas == 0 {
		return
	}
	var least *offerings.Offering
	for _, o := range c.after.Offerings[pool.Name].Offerings {
		if o.Precedes(least) {
			least = &o
		}
	}
	if least == nil {
		out.MinUnknown = true
		return
	}
	book.record(least.CapacityType, least.Price)
	out.Min, out.MinAtMost = cents(least.Price.USDPerHour*float64(*pool.Spec.Replicas)), least.Price.AtMost
}

// maxCost is the most that the limits allow: for each limit, all of it bought as
// the type that costs most for a unit; of these the least. Nil without a limit, and where no
// price of what the pool may buy is known.
func (c *comparison) maxCost(f *placement.Simulation, pool *karpv1.NodePool, book *ledger) (bound *float64, unknown bool) {
	sold := f.Offerings[pool.Name].Sold()
	if len(sold) == 0 {
		return nil, pool.Spec.Replicas != nil || len(pool.Spec.Limits) > 0
	}
	// A type of which one is too large for a limit is never bought. The offerings of a type follow each other.
	large := make([]bool, len(sold))
	for i := range sold {
		if i > 0 && sold[i].Type == sold[i-1].Type {
			large[i] = large[i-1]
		} else {
			large[i] = tooLarge(sold[i].Type, pool.Spec.Limits)
		}
	}
	most := math.Inf(1)
	for name, limit := range pool.Spec.Limits {
		highest := maxPerUnit(sold, large, name, book)
		if !math.IsInf(highest, 1) {
			most = min(most, highest*limit.AsApproximateFloat64())
		}
	}
	if static := pool.Spec.Replicas; static != nil {
		highest := 0.0
		for i := range sold {
			if !large[i] {
				highest = max(highest, sold[i].Price.USDPerHour)
			}
		}
		most = min(most, highest*float64(*static))
	}
	if math.IsInf(most, 1) {
		return nil, false
	}
	most = cents(most)
	return &most, false
}

// maxPerUnit is the most that a unit of a resource costs among what is sold and not too large; infinite where a type has
// none of it, of which a limit allows any number.
func maxPerUnit(sold []offerings.Offering, large []bool, name corev1.ResourceName, book *ledger) float64 {
	most, per := 0.0, 0.0
	for i := range sold {
		if i == 0 || sold[i].Type != sold[i-1].Type {
			per = units(sold[i].Type, name)
		}
		switch {
		case large[i]:
		case per > 0:
			book.record(sold[i].CapacityType, sold[i].Price)
			most = max(most, sold[i].Price.USDPerHour/per)
		default:
			most = math.Inf(1)
		}
	}
	return most
}

func tooLarge(it *cloudprovider.InstanceType, limits karpv1.Limits) bool {
	for name, limit := range limits {
		if units(it, name) > limit.AsApproximateFloat64() {
			return true
		}
	}
	return false
}

func units(it *cloudprovider.InstanceType, name corev1.ResourceName) float64 {
	if name == nodesLimit {
		return 1
	}
	quantity := it.Capacity[name]
	return quantity.AsApproximateFloat64()
}

func plus(a, b provision.Amount) provision.Amount {
	return provision.Amount{OnDemand: a.OnDemand + b.OnDemand, Spot: a.Spot + b.Spot, SpotAtMost: a.SpotAtMost + b.SpotAtMost, Unpriced: a.Unpriced + b.Unpriced}
}

func rounded(a provision.Amount) provision.Amount {
	return provision.Amount{OnDemand: cents(a.OnDemand), Spot: cents(a.Spot), SpotAtMost: cents(a.SpotAtMost), Unpriced: a.Unpriced}
}

// cents rounds to a hundredth of a cent, as EC2 writes prices.
func cents(usd float64) float64 { return math.Round(usd*1e4) / 1e4 }

// PoolCosts are what the nodes of a live cluster cost an hour, by NodePool: what [Compare] has as the cost of now.
// The context must be one of engine.Offline. An error is of a catalog that is empty.
func PoolCosts(ctx context.Context, live provision.ClusterSnapshot, types *catalog.Catalog) (map[string]provision.Amount, error) {
	book := newLedger(nil, snapshot.Unknowns{}, live.Now)
	var err error
	if book.catalog, err = offerings.NewCatalog(ctx, live.Cluster, types, book.unknown); err != nil {
		return nil, fmt.Errorf("pricing nodes: %w", err)
	}
	out := map[string]provision.Amount{}
	for _, claim := range live.NodeClaims {
		kind, pool := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[karpv1.NodePoolLabelKey]
		if kind == "" {
			continue // It was not launched yet.
		}
		of := out[pool]
		book.pay(&of, kind, claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey])
		out[pool] = of
	}
	return out, nil
}
