package offerings_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// fixture is a pool with its class in a region, and what of them a test changes.
type fixture struct {
	region   string
	pool     *karpv1.NodePool
	class    *awsv1.EC2NodeClass
	overlays []*karpv1alpha1.NodeOverlay
	listed   *pricelist.List
}

func newFixture() *fixture {
	family := awsv1.AMIFamilyAL2023
	f := &fixture{region: "us-east-1", pool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, class: &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
	f.pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "c"}
	f.class.Spec.AMIFamily = &family
	f.class.Status.Subnets = []awsv1.Subnet{{ID: "a", Zone: "us-east-1a", ZoneID: "use1-az1"}, {ID: "b", Zone: "us-east-1b", ZoneID: "use1-az2"}, {ID: "a2", Zone: "us-east-1a", ZoneID: "use1-az1"}}
	return f
}

func (f *fixture) require(key string, values ...string) {
	f.pool.Spec.Template.Spec.Requirements = append(f.pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
}

func few(t *testing.T, families ...string) *catalog.Catalog {
	t.Helper()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	out, err := all.Subset(families...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func offline(t *testing.T) context.Context {
	t.Helper()
	settings := engine.DefaultSettings()
	settings.Cluster, settings.Region, settings.Account = "c", "us-east-1", "111122223333"
	return engine.Offline(t.Context(), settings)
}

func (f *fixture) resolve(t *testing.T, types *catalog.Catalog) (*offerings.Resolved, *offerings.Catalog, snapshot.Unknowns) {
	t.Helper()
	unknown := snapshot.Unknowns{}
	ctx := offline(t)
	m, err := offerings.NewCatalog(ctx, provision.Cluster{Region: f.region, Offerings: f.listed}, types, unknown)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Resolve(ctx, snapshot.New(provision.ClusterSnapshot{
		Now: time.Unix(0, 0), Cluster: provision.Cluster{Region: f.region}, NodePools: []*karpv1.NodePool{f.pool},
		NodeClasses: []*awsv1.EC2NodeClass{f.class}, Overlays: f.overlays,
	}, unknown))
	if err != nil {
		t.Fatal(err)
	}
	return out, m, unknown
}

// bought is what a pool is offered, as "type zone capacity".
func bought(p offerings.Pool) []string {
	out := []string{}
	for _, o := range p.Offerings {
		out = append(out, o.InstanceType+" "+o.Zone+" "+o.CapacityType)
	}
	slices.Sort(out)
	return out
}

func TestAPoolIsOfferedWhatItsRequirementsAndItsClassAllow(t *testing.T) {
	tests := map[string]struct {
		change func(*fixture)
		want   []string
		left   int
	}{
		"each zone of its subnets once, in each capacity type": {func(f *fixture) { f.require(corev1.LabelInstanceTypeStable, "g4dn.xlarge") }, []string{
			"g4dn.xlarge us-east-1a on-demand", "g4dn.xlarge us-east-1a spot", "g4dn.xlarge us-east-1b on-demand", "g4dn.xlarge us-east-1b spot"}, 0},
		"no other capacity type than it requires": {func(f *fixture) {
			f.require(corev1.LabelInstanceTypeStable, "g4dn.xlarge")
			f.require(karpv1.CapacityTypeLabelKey, "on-demand")
		}, []string{"g4dn.xlarge us-east-1a on-demand", "g4dn.xlarge us-east-1b on-demand"}, 0},
		"no other zone than it requires, by its label too": {func(f *fixture) {
			f.require(corev1.LabelInstanceTypeStable, "g4dn.xlarge")
			f.require(karpv1.CapacityTypeLabelKey, "spot")
			f.pool.Spec.Template.Labels = map[string]string{corev1.LabelTopologyZone: "us-east-1b"}
		}, []string{"g4dn.xlarge us-east-1b spot"}, 0},
		"by the id of a zone": {func(f *fixture) {
			f.require(corev1.LabelInstanceTypeStable, "g4dn.xlarge")
			f.require(karpv1.CapacityTypeLabelKey, "spot")
			f.require(awsv1.LabelTopologyZoneID, "use1-az1")
		}, []string{"g4dn.xlarge us-east-1a spot"}, 0},
		"nothing in a zone without a subnet":          {func(f *fixture) { f.require(corev1.LabelTopologyZone, "us-east-1c") }, []string{}, 0},
		"nothing of a type that is not there":         {func(f *fixture) { f.require(corev1.LabelInstanceTypeStable, "x9.huge") }, []string{}, 0},
		"nothing of an architecture that no type has": {func(f *fixture) { f.require(corev1.LabelArchStable, "arm64") }, []string{}, 0},
		"nothing without its class":                   {func(f *fixture) { f.pool.Spec.Template.Spec.NodeClassRef.Name = "other" }, []string{}, 0},
		"nothing of a class whose kubelet is configured wrongly": {func(f *fixture) {
			f.class.Spec.Kubelet = awsv1.KubeletConfiguration{"maxPod": awsv1.JSONValue(3)}
		}, []string{}, 1},
		"nothing of a class whose kubelet is configured by an expression": {func(f *fixture) {
			f.class.Spec.Kubelet = awsv1.KubeletConfiguration{"systemReserved": awsv1.JSONValue(map[string]string{"cpu": "x"})}
		}, []string{}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			tt.change(f)
			out, _, unknown := f.resolve(t, few(t, "g4dn"))
			if diff := cmp.Diff(tt.want, bought(out.Offerings["p"])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(unknown) != tt.left {
				t.Errorf("%d sentences, not %d: %v", len(unknown), tt.left, unknown.Sorted())
			}
		})
	}
}

// Where the subnets of a class are not known, the zones are the region's.
func TestZonesAreAssumedWhereSubnetsAreNotKnown(t *testing.T) {
	f := newFixture()
	_, m, _ := f.resolve(t, few(t, "g4dn"))
	if got := m.AssumedZones("c"); got != nil {
		t.Errorf("of known subnets the zones %v are guessed", got)
	}
	f.class.Status.Subnets = nil
	for region, want := range map[string][]string{"us-east-1": nil, "mars-north-1": {"mars-north-1a", "mars-north-1b", "mars-north-1c"}} {
		f.region = region
		out, m, _ := f.resolve(t, few(t, "g4dn"))
		if known, err := catalog.Zones(region); err == nil {
			for _, zone := range known {
				want = append(want, zone.Name)
			}
		}
		if diff := cmp.Diff(want, m.AssumedZones("c")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", region, diff)
		}
		zones := map[string]bool{}
		for _, it := range out.Offerings["p"].All {
			for _, of := range it.Offerings {
				zones[of.Zone()] = of.Requirements.Intersects(it.Requirements) == nil
			}
		}
		maps.DeleteFunc(zones, func(_ string, sold bool) bool { return !sold })
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(zones))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", region, diff)
		}
	}
}

// Offers are at the catalog's price, whatever an overlay has Karpenter rank them by.
func TestOffersAreAtThePriceThatIsPaid(t *testing.T) {
	price := "0.01"
	cheap := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "cheap"}, Spec: karpv1alpha1.NodeOverlaySpec{
		Requirements: []karpv1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"g4dn.xlarge"}}},
		Price:        &price,
	}}
	types := few(t, "g4dn")
	for name, overlays := range map[string][]*karpv1alpha1.NodeOverlay{"without an overlay": nil, "with one": {cheap}} {
		f := newFixture()
		f.overlays = overlays
		out, m, _ := f.resolve(t, types)
		for _, o := range out.Offerings["p"].Offerings {
			want, err := types.OnDemand("us-east-1", o.InstanceType)
			want.AtMost = o.CapacityType == "spot"
			if again, _ := m.Price(o.InstanceType, o.Zone, o.CapacityType); err != nil || o.Price != want || again != want {
				t.Errorf("%s: %+v is not at %+v, %v", name, o, want, err)
			}
			at := o.Type.Offerings[slices.IndexFunc(o.Type.Offerings, func(of *cloudprovider.Offering) bool {
				return of.Zone() == o.Zone && of.CapacityType() == o.CapacityType
			})].Price
			if ranked := len(overlays) > 0 && o.InstanceType == "g4dn.xlarge"; ranked && at != 0.01 || !ranked && at != o.Price.USDPerHour {
				t.Errorf("%s: Karpenter ranks %s by %g, at %g", name, o.InstanceType, at, o.Price.USDPerHour)
			}
		}
	}
}

func TestSameIsWhetherOverlaysChangeTheSame(t *testing.T) {
	overlay := func(name, instanceType, price, gpus string) *karpv1alpha1.NodeOverlay {
		out := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
		out.Spec.Requirements = []karpv1alpha1.NodeSelectorRequirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{instanceType}}}
		if price != "" {
			out.Spec.Price = &price
		}
		if gpus != "" {
			out.Spec.Capacity = corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse(gpus)}
		}
		return out
	}
	types := few(t, "g4dn")
	with := func(overlays ...*karpv1alpha1.NodeOverlay) offerings.Pool {
		f := newFixture()
		f.overlays = overlays
		out, _, _ := f.resolve(t, types)
		return out.Offerings["p"]
	}
	base := with(overlay("a", "g4dn.xlarge", "1", "4"))
	for name, tt := range map[string]struct {
		other offerings.Pool
		same  bool
	}{
		"the same":                      {with(overlay("a", "g4dn.xlarge", "1", "4")), true},
		"by another name":               {with(overlay("b", "g4dn.xlarge", "1", "4")), true},
		"of another price":              {with(overlay("a", "g4dn.xlarge", "2", "4")), false},
		"of another capacity":           {with(overlay("a", "g4dn.xlarge", "1", "5")), false},
		"of another type":               {with(overlay("a", "g4dn.2xlarge", "1", "4")), false},
		"without the capacity":          {with(overlay("a", "g4dn.xlarge", "1", "")), false},
		"none":                          {with(), false},
		"one more that changes nothing": {with(overlay("a", "g4dn.xlarge", "1", "4"), overlay("b", "m5.large", "1", "")), true},
	} {
		if got := base.Same(tt.other); got != tt.same || tt.other.Same(base) != tt.same {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A type that the catalog has no price of is not bought, and named where a pool has no other.
func TestATypeWithoutAPriceIsNotBought(t *testing.T) {
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	var unpriced string
	for _, it := range all.Types() {
		if it.OnDemandUSD == 0 && slices.Contains(it.UsageClasses, "on-demand") && slices.Contains(it.Processor.Architectures, "x86_64") {
			unpriced = it.Name
		}
	}
	for name, tt := range map[string]struct {
		types []string
		left  int
	}{"alone": {[]string{unpriced}, 1}, "beside another": {[]string{unpriced, "m5.large"}, 0}} {
		f := newFixture()
		f.require(corev1.LabelInstanceTypeStable, tt.types...)
		out, _, unknown := f.resolve(t, all)
		for _, o := range out.Offerings["p"].Offerings {
			if o.InstanceType == unpriced {
				t.Errorf("%s: %+v is offered", name, o)
			}
		}
		if len(unknown) != tt.left {
			t.Errorf("%s: %d sentences, not %d: %v", name, len(unknown), tt.left, unknown.Sorted())
		}
	}
}

func TestResolvingEndsWithItsContextAndNeedsTypes(t *testing.T) {
	f := newFixture()
	types := few(t, "g4dn")
	ctx, cancel := context.WithCancel(offline(t))
	m, err := offerings.NewCatalog(ctx, provision.Cluster{Region: "us-east-1"}, types, snapshot.Unknowns{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := m.Resolve(ctx, snapshot.New(provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{f.pool}, NodeClasses: []*awsv1.EC2NodeClass{f.class}}, snapshot.Unknowns{})); err == nil {
		t.Error("a context that has ended is no error")
	}
	if _, err := offerings.NewCatalog(offline(t), provision.Cluster{Region: "us-east-1"}, &catalog.Catalog{}, snapshot.Unknowns{}); err == nil {
		t.Error("a catalog without types is no error")
	}
	unknown := snapshot.Unknowns{}
	if _, err := offerings.NewCatalog(offline(t), provision.Cluster{Region: "mars-north-1"}, types, unknown); err != nil || len(unknown) != 1 {
		t.Errorf("of a region without prices: %v, %v", unknown.Sorted(), err)
	}
}

// What EC2 refused is not bought; where the pool allows nothing else it is, since its nodes wait for it.
func TestWhatEC2RefusedIsBoughtOnlyWhereNothingElseIs(t *testing.T) {
	at := time.Date(2026, 11, 24, 11, 20, 0, 0, time.UTC)
	listed := &pricelist.List{Region: "us-east-1", OnDemandAt: at, SpotAt: at, ZonesAt: at, OnDemand: map[string]float64{}, Spot: map[string]map[string]float64{"us-east-1a": {}, "us-east-1b": {}}, Zones: map[string][]string{}}
	for _, name := range []string{"g4dn.xlarge", "g4dn.2xlarge"} {
		listed.Zones[name], listed.OnDemand[name] = []string{"us-east-1a", "us-east-1b"}, 1
		listed.Spot["us-east-1a"][name], listed.Spot["us-east-1b"][name] = 0.5, 0.5
	}
	refusal := func(instanceType, zone, capacityType string) pricelist.Refusal {
		return pricelist.Refusal{InstanceType: instanceType, Zone: zone, CapacityType: capacityType, Code: "InsufficientInstanceCapacity", At: at}
	}
	all := []string{"g4dn.xlarge us-east-1a on-demand", "g4dn.xlarge us-east-1b on-demand"}
	for name, tt := range map[string]struct {
		refused []pricelist.Refusal
		types   []string
		want    []string
		named   []string // what the pool was refused
		sold    int
	}{
		"nothing":                      {nil, []string{"g4dn.xlarge"}, all, nil, 2},
		"one zone":                     {[]pricelist.Refusal{refusal("g4dn.xlarge", "us-east-1a", "on-demand")}, []string{"g4dn.xlarge"}, all[1:], all[:1], 2},
		"another type":                 {[]pricelist.Refusal{refusal("g4dn.2xlarge", "us-east-1a", "on-demand")}, []string{"g4dn.xlarge"}, all, nil, 2},
		"another capacity type":        {[]pricelist.Refusal{refusal("g4dn.xlarge", "us-east-1a", "spot")}, []string{"g4dn.xlarge"}, all, nil, 2},
		"a zone that does not sell it": {[]pricelist.Refusal{refusal("g4dn.xlarge", "us-east-1c", "on-demand")}, []string{"g4dn.xlarge"}, all, nil, 2},
		"all":                          {[]pricelist.Refusal{refusal("g4dn.xlarge", "us-east-1a", "on-demand"), refusal("g4dn.xlarge", "us-east-1b", "on-demand")}, []string{"g4dn.xlarge"}, all, all, 2},
		"all of one type, beside another one": {[]pricelist.Refusal{refusal("g4dn.xlarge", "us-east-1a", "on-demand"), refusal("g4dn.xlarge", "us-east-1b", "on-demand")}, []string{"g4dn.xlarge", "g4dn.2xlarge"},
			[]string{"g4dn.2xlarge us-east-1a on-demand", "g4dn.2xlarge us-east-1b on-demand"}, all, 4},
	} {
		t.Run(name, func(t *testing.T) {
			f, list := newFixture(), *listed
			list.Refused = tt.refused
			f.listed = &list
			f.require(corev1.LabelInstanceTypeStable, tt.types...)
			f.require(karpv1.CapacityTypeLabelKey, "on-demand")
			out, m, unknown := f.resolve(t, few(t, "g4dn"))
			pool := out.Offerings["p"]
			if diff := cmp.Diff(tt.want, bought(pool)); diff != "" {
				t.Errorf("bought (-want +got):\n%s", diff)
			}
			var named []string
			for _, r := range pool.Refused {
				named = append(named, r.InstanceType+" "+r.Zone+" "+r.CapacityType)
				if r.Code != "InsufficientInstanceCapacity" || !r.At.Equal(at) {
					t.Errorf("%+v has another code or time", r)
				}
			}
			if diff := cmp.Diff(tt.named, named); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if got := len(pool.Sold()); got != tt.sold {
				t.Errorf("%d offerings are sold, want %d", got, tt.sold)
			}
			if only := slices.Equal(tt.want, tt.named); pool.HasOnlyRefused() != only {
				t.Errorf("only what was refused: %t, want %t", pool.HasOnlyRefused(), only)
			}
			m.WarnRefused("p", pool)
			if got := unknown.Sorted(); (len(got) > 0) != (len(tt.named) > 0) || len(got) > 0 && (got[0].Code != "OfferingsRefused" || got[0].Object != "NodePool/p") {
				t.Errorf("unknown is %+v", got)
			}
		})
	}
}
