package simulate

import (
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// warnZones warns where zones were taken for those of a class's subnets and something
// requires zones: where nothing does, others give the same result.
func (c *comparison) warnZones(pending []pendingPod) {
	required := slices.ContainsFunc(pending, func(s pendingPod) bool { return workload.Zonal(s.pod) })
	for _, f := range []*placement.Simulation{c.before, c.after} {
		for _, pool := range f.Pools {
			class := f.Class(pool)
			if class == nil || c.catalog.AssumedZones(class.Name) == nil {
				continue
			}
			taken := c.catalog.AssumedZones(class.Name)
			desired := offerings.Requirements(pool).Get(corev1.LabelTopologyZone)
			other := desired.Operator() == corev1.NodeSelectorOpIn && slices.ContainsFunc(desired.Values(), func(zone string) bool { return !slices.Contains(taken, zone) })
			if required || other || offerings.Requirements(pool).Has(awsv1.LabelTopologyZoneID) {
				c.unknown.Add(codeSubnetZonesUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: which zones its subnets are in is not known: %s are taken.", class.Name, strings.Join(taken, ", "))
			}
		}
	}
}
