// Package offerings has what NodePools can buy: instance types as the AWS provider's own code makes
// them of the catalog, with the overlays that Karpenter's controller applies, and their prices.
package offerings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype/compatibility"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/catalog/ec2info"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Catalog is what can be bought in the region, made of the catalog by the AWS
// provider's own code.
type Catalog struct {
	region string
	// listed is what AWS returned of the region, nil where nothing was read, refused what it has of refusals.
	listed  *pricelist.List
	refused refusals
	// Types are the catalog that it is made of.
	Types    *catalog.Catalog
	unknown  snapshot.Unknowns
	resolver *instancetype.DefaultResolver
	// instanceTypes are by what of a class decides about them, cache has what
	// pools can buy by what decides about that.
	instanceTypes map[string][]*cloudprovider.InstanceType
	cache         map[string]Pool
	// assumed are the zones taken for those of classes whose subnets are not known.
	assumed map[string][]string
}

// Resolved is a snapshot with what its pools can buy.
type Resolved struct {
	*snapshot.Indexed
	// Offerings are by pool, overlays applied.
	Offerings map[string]Pool
}

// Pool is what one NodePool can buy.
type Pool struct {
	// All are the types with overlays applied, Allowed those among them that the
	// pool's requirements let it buy, Offerings what these are sold at.
	All, Allowed []*cloudprovider.InstanceType
	Offerings    []Offering
	// Refused are what EC2 refused of what the pool could buy. They are among Offerings only where nothing else would be.
	Refused []RefusedOffering
	// unpriced are the types that would be among Allowed if the catalog had a price
	// of them, without which Karpenter buys nothing.
	unpriced []string
	// overlaid is what overlays change, by type.
	overlaid map[string]string
}

// Same reports whether overlays change the same in both.
func (s Pool) Same(other Pool) bool {
	return maps.Equal(s.overlaid, other.overlaid)
}

// NewCatalog makes the catalog of a cluster's region, and adds to unknown what it has no prices of.
// It fails with a panic when the context has no options, so that this is not taken for the error
// of some class.
func NewCatalog(ctx context.Context, cluster provision.Cluster, types *catalog.Catalog, unknown snapshot.Unknowns) (*Catalog, error) {
	all := types.Types()
	if len(all) == 0 {
		return nil, fmt.Errorf("the catalog is empty: load one with catalog.Load")
	}
	region, listed := cluster.Region, cluster.Offerings
	if listed != nil && listed.Region != region {
		listed = nil
	}
	if _, err := types.OnDemand(region, all[0].Name); err != nil && (listed == nil || listed.OnDemandAt.IsZero()) {
		unknown.Add(codeRegionWithoutPrices, "", "Region %s: the catalog has no prices of it, so that costs are left out.", region)
	}
	expressions, err := kubeletcel.NewEnvironment()
	if err != nil {
		return nil, fmt.Errorf("preparing the expressions of kubelet configurations: %w", err)
	}
	m := &Catalog{
		region: region, listed: listed, refused: newRefusals(listed), Types: types, unknown: unknown, resolver: instancetype.NewDefaultResolver(region, expressions),
		instanceTypes: map[string][]*cloudprovider.InstanceType{}, cache: map[string]Pool{}, assumed: map[string][]string{},
	}
	_, err = m.resolver.Resolve(ctx, ec2info.InstanceTypeInfo(all[0]), nil, &awsv1.EC2NodeClass{}, &awsv1.ParsedKubeletConfig{})
	return m, err
}

// Resolve returns the snapshot with what each of its pools can buy. An error is that of the context,
// or of Karpenter's controller of overlays.
func (m *Catalog) Resolve(ctx context.Context, f *snapshot.Indexed) (*Resolved, error) {
	plain := map[string][]*cloudprovider.InstanceType{}
	for name, pool := range f.Pools {
		class := f.Class(pool)
		if class == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		made, err := m.typesOf(ctx, f, pool, class)
		if err != nil {
			m.unknown.Add(codeNodeCapacityUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: what its nodes hold cannot be reckoned: %v.", class.Name, err)
			continue
		}
		plain[name] = made
	}
	overlaid, err := applyOverlays(ctx, f, plain, m.unknown)
	if err != nil {
		return nil, err
	}
	out := &Resolved{Indexed: f, Offerings: map[string]Pool{}}
	for name, all := range overlaid {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out.Offerings[name] = m.offeringsOf(f, name, all, differences(plain[name], all))
	}
	return out, nil
}

// offeringsOf is what a pool can buy of all types. Many pools can buy the same, and most
// pools the same before and after.
func (m *Catalog) offeringsOf(f *snapshot.Indexed, name string, all []*cloudprovider.InstanceType, overlaid map[string]string) Pool {
	pool, class := f.Pools[name], f.Class(f.Pools[name])
	zones, _ := m.zones(class)
	// These are plain values, which always marshal.
	key, _ := json.Marshal([]any{m.key(class, zones), m.reservationsOf(f, class), overlaid, pool.Spec.Template.Spec.Requirements, pool.Spec.Template.Labels})
	out, ok := m.cache[string(key)]
	if !ok {
		desired := Requirements(pool)
		out = Pool{All: all, overlaid: overlaid, Refused: m.refusedOf(all, class, desired)}
		for _, it := range all {
			if it.Requirements.Intersects(desired) != nil {
				continue
			}
			if sold := it.Offerings.Available().Compatible(desired); len(sold) > 0 {
				out.Allowed = append(out.Allowed, it)
				out.Offerings = append(out.Offerings, m.priced(it, sold)...)
			} else if t, _ := m.Types.Lookup(it.Name); m.unpriced(t, it.Offerings.Compatible(desired)) &&
				compatibility.IsCompatibleWithNodeClass(ec2info.InstanceTypeInfo(t), withoutEnclaves(class), nil) {
				out.unpriced = append(out.unpriced, it.Name)
			}
		}
		m.cache[string(key)] = out
	}
	if len(out.Allowed) == 0 && len(out.unpriced) > 0 {
		m.unknown.Add(codePriceMissing, "NodePool/"+name, "NodePool %s: the catalog has no price of %s, and without a price Karpenter starts no node: whether it has one in region %s is not known.", name, strings.Join(out.unpriced, ", "), m.region)
	}
	return out
}

// of makes the instance types for a class, of which what is refused is not available. The provider's code panics over
// some problems, such as a kubelet quantity that is none; these are errors here.
func (m *Catalog) of(ctx context.Context, class *awsv1.EC2NodeClass, reserved reservations, refused refusals) (out []*cloudprovider.InstanceType, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%v", p)
		}
	}()
	zones, ids := m.zones(class)
	if e := class.Spec.EnclaveOptions; e != nil && e.Enabled {
		m.unknown.Add(codeEnclaveSupportUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: which instance types support Nitro Enclaves is not known: all are taken to.", class.Name)
	}
	class = withoutEnclaves(class)
	class.Status.Subnets = nil
	for i, zone := range zones {
		class.Status.Subnets = append(class.Status.Subnets, awsv1.Subnet{ID: "subnet-" + zone, Zone: zone, ZoneID: ids[i]})
	}
	class.Status.CapacityReservations = nil
	for _, r := range reserved.List {
		class.Status.CapacityReservations = append(class.Status.CapacityReservations, r.CapacityReservation)
	}
	// These are plain values, which always marshal.
	has, _ := json.Marshal([]any{reserved, len(refused)})
	key := m.key(class, zones) + string(has)
	if made, ok := m.instanceTypes[key]; ok {
		return made, nil
	}
	kubelet, err := kubeletOf(class)
	if err != nil {
		return nil, err
	}
	for _, t := range m.Types.Types() {
		info := ec2info.InstanceTypeInfo(t)
		it, err := m.resolver.Resolve(ctx, info, zones, class, kubelet)
		if err != nil {
			return nil, err
		}
		if it != nil {
			fits := compatibility.IsCompatibleWithNodeClass(info, class, nil)
			it.Offerings = append(m.offerings(t, zones, ids, fits, refused), m.reserved(ctx, it, t, class, reserved)...)
			out = append(out, it)
		}
	}
	m.instanceTypes[key] = out
	return out, nil
}

// kubeletOf is the class's configuration of the kubelet. One that Karpenter does not accept is an
// error: the class is not ready then, and no node of it is launched.
func kubeletOf(class *awsv1.EC2NodeClass) (*awsv1.ParsedKubeletConfig, error) {
	if err := errors.Join(awsv1.ValidateKubeletConfig(class.Spec.Kubelet)...); err != nil {
		return nil, err
	}
	kubelet, err := awsv1.ParseKubeletConfig(class.Spec.Kubelet)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading spec.kubelet: %w", err)
	case kubelet.HasExpressions():
		return nil, errors.New("spec.kubelet has an expression, and Karpenter's feature gate NodeClassCEL is off")
	}
	return kubelet, nil
}

// withoutEnclaves is the class without the requirement of Nitro Enclaves: the catalog does not
// have which instance types support them.
func withoutEnclaves(class *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	class = class.DeepCopy()
	class.Spec.EnclaveOptions = nil
	return class
}

// key is what of a class decides about instance types.
func (m *Catalog) key(class *awsv1.EC2NodeClass, zones []string) string {
	// These are plain structs, which always marshal.
	more, _ := json.Marshal([]any{class.Spec.CPUOptions, class.Spec.PlacementGroupSelector, zones})
	return m.resolver.CacheKey(class) + string(more)
}

// AssumedZones are the zones taken for those of a class whose subnets are not known, nil where
// they are.
func (m *Catalog) AssumedZones(class string) []string { return m.assumed[class] }

// zones are those of the class's subnets, or the region's usual ones.
func (m *Catalog) zones(class *awsv1.EC2NodeClass) (names, ids []string) {
	for _, subnet := range class.Status.Subnets {
		if !slices.Contains(names, subnet.Zone) {
			names, ids = append(names, subnet.Zone), append(ids, subnet.ZoneID)
		}
	}
	if len(names) > 0 {
		return names, ids
	}
	known, err := catalog.Zones(m.region)
	if err != nil {
		for _, letter := range []string{"a", "b", "c"} {
			// The provider groups subnets by the ids of their zones: without one they are of a single zone.
			known = append(known, catalog.Zone{Name: m.region + letter, ID: m.region + letter})
		}
	}
	for _, zone := range known {
		names, ids = append(names, zone.Name), append(ids, zone.ID)
	}
	m.assumed[class.Name] = names
	return names, ids
}

// offerings are the type's in each zone, on demand and spot as EC2 sells it.
func (m *Catalog) offerings(t catalog.InstanceType, zones, ids []string, fits bool, refused refusals) cloudprovider.Offerings {
	var out cloudprovider.Offerings
	for i, zone := range zones {
		for _, capacity := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
			if !slices.Contains(t.UsageClasses, capacity) {
				continue
			}
			requirements := scheduling.NewRequirements(
				scheduling.NewRequirement(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacity),
				scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zone),
				scheduling.NewRequirement(cloudprovider.ReservationIDLabel, corev1.NodeSelectorOpDoesNotExist),
				scheduling.NewRequirement(awsv1.LabelCapacityReservationType, corev1.NodeSelectorOpDoesNotExist),
				scheduling.NewRequirement(awsv1.LabelCapacityReservationInterruptible, corev1.NodeSelectorOpDoesNotExist),
			)
			if ids[i] != "" {
				requirements.Add(scheduling.NewRequirement(awsv1.LabelTopologyZoneID, corev1.NodeSelectorOpIn, ids[i]))
			}
			available := fits && m.listed.HasOffering(t.Name, zone) && m.hasPrice(t, zone, capacity) && !refused.has(t.Name, zone, capacity)
			out = append(out, &cloudprovider.Offering{Requirements: requirements, Price: m.rank(t, zone, capacity), Available: available})
		}
	}
	return out
}

// rank is the price by which Karpenter chooses: that of Price, or where the region has none that
// of us-east-1, which keeps the order. Spot instances whose prices are not known rank by their
// on-demand price, as Karpenter ranks them until it has read the spot prices.
func (m *Catalog) rank(t catalog.InstanceType, zone, capacity string) float64 {
	if price, err := m.Price(t.Name, zone, capacity); err == nil {
		return price.USDPerHour
	}
	return t.OnDemandUSD
}

// hasPrice reports whether Karpenter has a price of the offering, without which it launches none:
// one that AWS returned, or where none was read, one of the type in any region.
func (m *Catalog) hasPrice(t catalog.InstanceType, zone, capacity string) bool {
	if price, known := m.listedPrice(t.Name, zone, capacity); known {
		return price.USDPerHour > 0
	}
	return t.OnDemandUSD > 0
}

// unpriced reports whether one of the offerings lacks nothing but a price.
func (m *Catalog) unpriced(t catalog.InstanceType, all cloudprovider.Offerings) bool {
	return slices.ContainsFunc(all, func(o *cloudprovider.Offering) bool {
		return m.listed.HasOffering(t.Name, o.Zone()) && !m.hasPrice(t, o.Zone(), o.CapacityType())
	})
}

func (m *Catalog) listedPrice(name, zone, capacity string) (catalog.Price, bool) {
	if capacity == karpv1.CapacityTypeSpot {
		return m.listed.SpotPrice(name, zone)
	}
	return m.listed.OnDemandPrice(name)
}

// PriceDate is the day on which the prices of a basis were read, as YYYY-MM-DD.
func (m *Catalog) PriceDate(basis catalog.Basis) string {
	return cmp.Or(m.listed.Date(basis), m.Types.PriceDate())
}

// IsOutdated reports whether AWS returned the prices of a basis too long before the time to be today's.
func (m *Catalog) IsOutdated(basis catalog.Basis, at time.Time) bool {
	return m.listed.IsOutdated(basis, at)
}

// Price is the one that AWS returned, or where none was read, the catalog's; of spot, which the
// catalog has no prices of, the most that it may be. Reserved capacity is paid for at the
// on-demand rate.
func (m *Catalog) Price(name, zone, capacity string) (catalog.Price, error) {
	if price, known := m.listedPrice(name, zone, capacity); known && price.USDPerHour == 0 {
		return price, fmt.Errorf("pricing instance type %q: AWS has no %s price of it in %s", name, capacity, cmp.Or(zone, m.region))
	} else if known {
		return price, nil
	}
	if capacity == karpv1.CapacityTypeSpot {
		if t, ok := m.Types.Lookup(name); ok && !slices.Contains(t.UsageClasses, karpv1.CapacityTypeSpot) {
			return catalog.Price{}, fmt.Errorf("pricing instance type %q: EC2 offers no spot capacity of it", name)
		}
		price, err := m.Price(name, zone, karpv1.CapacityTypeOnDemand)
		price.AtMost = err == nil
		return price, err
	}
	return m.Types.OnDemand(m.region, name)
}

// Requirements are what a NodePool requires of its nodes, by its requirements and its labels.
func Requirements(pool *karpv1.NodePool) scheduling.Requirements {
	desired := scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
	desired.Add(scheduling.NewLabelRequirements(pool.Spec.Template.Labels).Values()...)
	return desired
}

// differences is what overlays change of it, by type.
func differences(plain, overlaid []*cloudprovider.InstanceType) map[string]string {
	out := map[string]string{}
	for i, it := range overlaid {
		if it == plain[i] {
			continue // Karpenter copies a type only to change it.
		}
		var text []string
		for name, quantity := range it.Capacity {
			if had, ok := plain[i].Capacity[name]; !ok || had.Cmp(quantity) != 0 {
				text = append(text, string(name)+"="+quantity.String())
			}
		}
		for j, offering := range it.Offerings {
			if had := plain[i].Offerings[j].Price; had != offering.Price {
				text = append(text, fmt.Sprintf("%d:%g", j, offering.Price))
			}
		}
		slices.Sort(text)
		if len(text) > 0 {
			out[it.Name] = strings.Join(text, " ")
		}
	}
	return out
}
