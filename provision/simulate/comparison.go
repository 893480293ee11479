package simulate

import (
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// comparison is one Compare at work.
type comparison struct {
	before, after *placement.Simulation
	drift         *drift.Change
	catalog       *offerings.Catalog
	unknown       snapshot.Unknowns
	// replaced, drifted and removed are in order.
	replaced, drifted []provision.Node
	removed           []provision.RemovedPool
	repairs           []noderepair.Repair
	found             provision.PodScheduling
	// waiting are the pods that need a node after the change, those of replaced nodes apart.
	waiting []pendingPod
	// launched are what Karpenter launches in the place of replaced nodes, by NodeClaim; those for which that is
	// not simulated are absent.
	launched map[string][]*offerings.Offering
	// assumptions are those about what is launched.
	assumptions []string
	// replacementOfferings are what replaced nodes become for which it is not simulated, by pool, type, zone and capacity
	// type.
	replacementOfferings map[string]*offerings.Offering
	// fullPools are the sentences about limits, by pool.
	fullPools map[string]string
	// evictions are the budgets that block pods, by their shapes; see blockingBudgets.
	evictions map[reduce.ShapeKey][]string
	// managed are pods without an owner that somebody makes again; see alone.
	managed map[provision.Pod]bool
}
