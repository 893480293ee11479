// Package ebs is what a node costs beside its instance: its EBS volumes and its public IPv4
// address, as its EC2NodeClass declares them.
//
// The prices are those that AWS publishes for us-east-1 at https://aws.amazon.com/ebs/pricing/ and
// https://aws.amazon.com/vpc/pricing/, the second for all regions. It makes no request, and what
// it has no price of is marked as unknown, never free. Start reading at [Of].
package ebs

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Costs are in US dollars an hour.
type Costs struct {
	// Volumes is that of the EBS volumes, and VolumesUnknown true where it is without some whose
	// price is not known.
	Volumes        float64
	VolumesUnknown bool
	// PublicIPv4 is that of the address, and PublicIPv4Unknown true where the node's subnet decides
	// whether it has one.
	PublicIPv4        float64
	PublicIPv4Unknown bool
}

const (
	// hoursPerMonth is how many hours AWS bills a month of a volume as.
	hoursPerMonth = 730
	// publicIPv4 is the price of an hour of an address.
	publicIPv4 = 0.005
	gibibyte   = 1 << 30
	// freeThroughput is how many MiB/s a gp3 volume has without being paid for.
	freeThroughput = 125
)

// rates are the prices of a month.
type rates struct {
	// gibibyte is for the size, throughput for each MiB/s above freeThroughput, and iops by tiers, lowest
	// first: free where there are none, and below the first.
	gibibyte, throughput float64
	iops                 []tier
}

// tier is the price of each of the IOPS above a number, up to the next tier.
type tier struct {
	above int64
	price float64
}

// ratesOf are those of a type of volumes.
func ratesOf(volumeType string) (rates, bool) {
	found, ok := map[string]rates{
		"gp3": {gibibyte: 0.08, throughput: 0.04, iops: []tier{{3000, 0.005}}},
		"gp2": {gibibyte: 0.10},
		"io1": {gibibyte: 0.125, iops: []tier{{0, 0.065}}},
		"io2": {gibibyte: 0.125, iops: []tier{{0, 0.065}, {32_000, 0.0455}, {64_000, 0.03185}}},
		"st1": {gibibyte: 0.045},
		"sc1": {gibibyte: 0.015},
	}[volumeType]
	return found, ok
}

// ofIOPS is the price of so many.
func (r rates) ofIOPS(n int64) (sum float64) {
	for i, t := range r.iops {
		within := n
		if i+1 < len(r.iops) {
			within = min(n, r.iops[i+1].above)
		}
		sum += t.price * float64(max(0, within-t.above))
	}
	return sum
}

// CostsOf is what a node of the class costs beside its instance; for no class that is not known.
func CostsOf(class *awsv1.EC2NodeClass) Costs {
	var out Costs
	if class == nil {
		return Costs{VolumesUnknown: true, PublicIPv4Unknown: true}
	}
	mappings := class.Spec.BlockDeviceMappings
	if len(mappings) == 0 {
		mappings = defaults(class.AMIFamily())
		out.VolumesUnknown = mappings == nil
	}
	for _, mapping := range mappings {
		if mapping != nil && mapping.EBS != nil {
			out.add(mapping.EBS)
		}
	}
	public := class.Spec.AssociatePublicIPAddress
	if out.PublicIPv4Unknown = public == nil; public != nil && *public {
		out.PublicIPv4 = publicIPv4
	}
	return out
}

func (c *Costs) add(volume *awsv1.BlockDevice) {
	kind := ""
	if volume.VolumeType != nil {
		kind = *volume.VolumeType
	}
	price, known := ratesOf(kind)
	if !known || volume.VolumeSize == nil {
		c.VolumesUnknown = true
		return
	}
	month := price.gibibyte * volume.VolumeSize.AsApproximateFloat64() / gibibyte
	if volume.IOPS != nil {
		month += price.ofIOPS(*volume.IOPS)
	}
	if volume.Throughput != nil {
		month += price.throughput * float64(max(0, *volume.Throughput-freeThroughput))
	}
	c.Volumes += month / hoursPerMonth
}

// defaults are the volumes that Karpenter gives nodes of a class that declares none, nil where the
// image decides.
func defaults(family string) []*awsv1.BlockDeviceMapping {
	volume := func(size string) *awsv1.BlockDeviceMapping {
		quantity, kind := resource.MustParse(size), "gp3"
		return &awsv1.BlockDeviceMapping{EBS: &awsv1.BlockDevice{VolumeSize: &quantity, VolumeType: &kind}}
	}
	switch family {
	case awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023:
		return []*awsv1.BlockDeviceMapping{volume("20Gi")}
	case awsv1.AMIFamilyBottlerocket:
		return []*awsv1.BlockDeviceMapping{volume("6Gi"), volume("20Gi")}
	case awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025:
		return []*awsv1.BlockDeviceMapping{volume("50Gi")}
	}
	return nil
}
