package recorder

import (
	"time"

	"github.com/poolwright/poolwright/reconciler/history"
)

// NeedsPrice reports whether the NodeClaim with a UID has no price or an approximate one, which another is to replace.
func (s *State) NeedsPrice(uid string) bool {
	open := s.open[uid]
	return open == nil || open.USDPerHour == nil || open.PriceBasis.Approximate()
}

// HasPods reports whether the NodeClaim with a UID has as many names of pods as it may have.
func (s *State) HasPods(uid string) bool {
	open := s.open[uid]
	return open != nil && len(open.Pods) >= maxPods
}

// reprice takes over a price where none is known, or one of AWS' in place of an approximate one, with what it changes in the sums
// of the NodeClaim and of the hours that are not archived yet.
func (s *State) reprice(n *openNodeClaim, o *Observation) {
	switch {
	case o.USDPerHour == nil:
		return
	case n.USDPerHour != nil && (!n.PriceBasis.Approximate() || o.PriceBasis.Approximate()):
		return
	}
	before := valueOf(n.USDPerHour)
	total := valueOf(n.USD) + n.Unpriced**o.USDPerHour/time.Hour.Seconds()
	if before > 0 {
		total = valueOf(n.USD)/before**o.USDPerHour + n.Unpriced**o.USDPerHour/time.Hour.Seconds()
	}
	from := later(n.Launched.Time, n.AccountedFrom.Time)
	if whole := n.Accounted.Sub(from).Seconds(); whole > 0 {
		for key, hour := range s.hours {
			begin := time.Unix(key.hour, 0)
			seconds := earlier(begin.Add(time.Hour), n.Accounted).Sub(later(begin, from)).Seconds()
			if key.pool != n.NodePool || seconds <= 0 {
				continue
			}
			// What of its GPUs was requested in this hour is not kept: it is the part of its whole time.
			perSecond := (*o.USDPerHour - before) / time.Hour.Seconds()
			var usd history.States
			if n.GPUs > 0 {
				usd = n.GPUSeconds.Times(seconds / whole * perSecond / float64(n.GPUs))
			}
			usd.Paid = seconds * perSecond
			hour.USD = hour.USD.Plus(usd)
			if n.USDPerHour == nil {
				hour.UnpricedSeconds = max(0, hour.UnpricedSeconds-seconds)
				hour.Approximate = hour.Approximate || o.PriceBasis.Approximate()
			}
			if s.addFunc != nil {
				s.addFunc(n.NodePool, n.CapacityType, history.States{}, usd)
			}
		}
	}
	n.USDPerHour, n.PriceBasis, n.USD, n.Unpriced = o.USDPerHour, o.PriceBasis, &total, 0
	s.changed = true
}
