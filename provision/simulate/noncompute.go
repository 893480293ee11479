package simulate

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/ebs"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
)

// nonCompute is what the pool's nodes cost beside their instances, now and after the change: a node
// that is replaced is then of the class as the change leaves it.
func (c *comparison) nonCompute(name string) (now, after provision.NonCompute) {
	was, is, outcomes := c.before.Pools[name], c.after.Pools[name], c.nodeOutcomes(name)
	var before, then ebs.Costs
	if was != nil {
		before = ebs.CostsOf(c.before.Class(was))
	}
	if is != nil {
		then = ebs.CostsOf(c.after.Class(is))
	}
	for _, claim := range c.before.Claims[name] {
		if claim.Labels[corev1.LabelInstanceTypeStable] == "" {
			continue // It was not launched yet.
		}
		addNonCompute(&now, before)
		outcome := outcomes[claim.Name]
		switch {
		case outcome.blocked || is != nil && !outcome.deleted && !outcome.replaced:
			addNonCompute(&after, before)
		case is != nil && outcome.replaced && !outcome.deleted:
			for range c.launchedFor(claim, is, ownOffer(claim)) {
				addNonCompute(&after, then)
			}
		}
	}
	return roundedNonCompute(now), roundedNonCompute(after)
}

// ownOffer is what a node is of.
func ownOffer(claim *karpv1.NodeClaim) *offerings.Offering {
	return &offerings.Offering{
		InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone], CapacityType: claim.Labels[karpv1.CapacityTypeLabelKey],
	}
}

func addNonCompute(to *provision.NonCompute, node ebs.Costs) {
	to.Volumes += node.Volumes
	to.PublicIPv4 += node.PublicIPv4
	to.VolumesUnknown = to.VolumesUnknown || node.VolumesUnknown
	to.PublicIPv4Unknown = to.PublicIPv4Unknown || node.PublicIPv4Unknown
}

func roundedNonCompute(b provision.NonCompute) provision.NonCompute {
	b.Volumes, b.PublicIPv4 = cents(b.Volumes), cents(b.PublicIPv4)
	return b
}

func plusNonCompute(a, b provision.NonCompute) provision.NonCompute {
	addNonCompute(&a, ebs.Costs{Volumes: b.Volumes, VolumesUnknown: b.VolumesUnknown, PublicIPv4: b.PublicIPv4, PublicIPv4Unknown: b.PublicIPv4Unknown})
	return roundedNonCompute(a)
}
