package offerings

import (
	"context"
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype/compatibility"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/catalog/ec2info"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// RefusedOffering is one that a pool could buy, and of which EC2 refused to launch an instance.
type RefusedOffering struct {
	Offering
	// Code is that of EC2's last error, and At when it returned it.
	Code string
	At   time.Time
}

// refusals are those of the region, by their offerings.
type refusals map[refusalKey]pricelist.Refusal

type refusalKey struct{ instanceType, zone, capacityType string }

func newRefusals(listed *pricelist.List) refusals {
	out := refusals{}
	if listed != nil {
		for _, r := range listed.Refused {
			out[refusalKey{r.InstanceType, r.Zone, r.CapacityType}] = r
		}
	}
	return out
}

// has reports whether EC2 refused the offering.
func (r refusals) has(instanceType, zone, capacityType string) bool {
	_, refused := r[refusalKey{instanceType, zone, capacityType}]
	return refused
}

// typesOf are the instance types of a pool's class. What EC2 refused is not available, as it is not to Karpenter; unless that is
// all that the pool may launch: then its nodes wait until EC2 has capacity again, and are of these types.
func (m *Catalog) typesOf(ctx context.Context, f *snapshot.Indexed, pool *karpv1.NodePool, class *awsv1.EC2NodeClass) ([]*cloudprovider.InstanceType, error) {
	reserved := m.reservationsOf(f, class)
	made, err := m.of(ctx, class, reserved, m.refused)
	if err != nil || len(m.refused) == 0 {
		return made, err
	}
	desired := Requirements(pool)
	launchable := func(it *cloudprovider.InstanceType) bool {
		return it.Requirements.Intersects(desired) == nil && it.Offerings.Launchable().HasCompatible(desired)
	}
	if slices.ContainsFunc(made, launchable) {
		return made, nil
	}
	return m.of(ctx, class, reserved, nil)
}

// refusedOf are the offerings of all types that the requirements of a pool and its class allow, and that EC2 refused.
func (m *Catalog) refusedOf(all []*cloudprovider.InstanceType, class *awsv1.EC2NodeClass, desired scheduling.Requirements) []RefusedOffering {
	if len(m.refused) == 0 {
		return nil
	}
	class = withoutEnclaves(class)
	var out []RefusedOffering
	for _, it := range all {
		t, _ := m.Types.Lookup(it.Name)
		refused := slices.DeleteFunc(slices.Clone(it.Offerings), func(o *cloudprovider.Offering) bool {
			return !m.refused.has(it.Name, o.Zone(), o.CapacityType()) || !m.listed.HasOffering(it.Name, o.Zone()) || !m.hasPrice(t, o.Zone(), o.CapacityType())
		})
		if len(refused) == 0 || it.Requirements.Intersects(desired) != nil || !compatibility.IsCompatibleWithNodeClass(ec2info.InstanceTypeInfo(t), class, nil) {
			continue
		}
		for _, o := range m.priced(it, refused.Compatible(desired)) {
			r := m.refused[refusalKey{o.InstanceType, o.Zone, o.CapacityType}]
			out = append(out, RefusedOffering{o, r.Code, r.At})
		}
	}
	return out
}

// HasOnlyRefused reports whether EC2 refused all that the pool could buy.
func (s Pool) HasOnlyRefused() bool {
	return len(s.Refused) > 0 && slices.ContainsFunc(s.Offerings, func(o Offering) bool { return s.Refused[0].SameAs(&o) })
}

// Sold are the Offerings and those that EC2 refused.
func (s Pool) Sold() []Offering {
	if s.HasOnlyRefused() {
		return s.Offerings
	}
	out := slices.Clip(s.Offerings)
	for _, r := range s.Refused {
		out = append(out, r.Offering)
	}
	return out
}

// mostRefused is how many refused offerings are named.
const mostRefused = 3

// WarnRefused warns of what EC2 refused of what a pool may buy.
func (m *Catalog) WarnRefused(name string, pool Pool) {
	if len(pool.Refused) == 0 {
		return
	}
	newest := slices.Clone(pool.Refused)
	slices.SortStableFunc(newest, func(a, b RefusedOffering) int { return b.At.Compare(a.At) })
	var names []string
	for _, r := range newest {
		names = append(names, fmt.Sprintf("%s %s in %s", r.InstanceType, r.CapacityType, r.Zone))
	}
	refused := fmt.Sprintf("EC2 refused %s, last at %s (%s)", plural.FirstOf(names, mostRefused, ", "), newest[0].At.UTC().Format("2006-01-02 15:04 UTC"), newest[0].Code)
	then := fmt.Sprintf("for %.0f minutes none of that is forecast.", pricelist.RefusalAge.Minutes())
	if pool.HasOnlyRefused() {
		then = "it allows nothing else, and until EC2 has capacity its nodes stay and its pods wait."
	}
	m.unknown.Add(codeOfferingsRefused, "NodePool/"+name, "NodePool %s: %s: %s", name, refused, then)
}
