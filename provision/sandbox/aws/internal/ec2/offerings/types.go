package offerings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) describeInstanceTypes(in *api.Call) (any, error) {
	requested := in.Form.List("InstanceType")
	if name := ec2query.Missing(requested, func(n string) bool { _, ok := svc.catalog.Lookup(n); return ok }); name != "" {
		return nil, api.Refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
	}
	found, err := ec2query.Choose(in, svc.types, ec2query.Attributes[catalog.InstanceType]{
		"instance-type":                         ec2query.One(func(t catalog.InstanceType) string { return t.Name }),
		"supported-virtualization-type":         ec2query.One(func(catalog.InstanceType) string { return "hvm" }),
		"processor-info.supported-architecture": func(t catalog.InstanceType) []string { return t.Processor.Architectures },
		"supported-usage-class":                 func(t catalog.InstanceType) []string { return t.UsageClasses },
		"current-generation":                    ec2query.One(func(t catalog.InstanceType) string { return strconv.FormatBool(t.CurrentGeneration) }),
		"bare-metal":                            ec2query.One(func(t catalog.InstanceType) string { return strconv.FormatBool(t.BareMetal()) }),
		"hypervisor":                            ec2query.One(func(t catalog.InstanceType) string { return t.Hypervisor }),
		"vcpu-info.default-vcpus":               ec2query.One(func(t catalog.InstanceType) string { return strconv.Itoa(t.VCPUs) }),
		"memory-info.size-in-mib":               ec2query.One(func(t catalog.InstanceType) string { return strconv.Itoa(t.MemoryMiB) }),
	}, nil)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, t := range found {
		if len(requested) == 0 || slices.Contains(requested, t.Name) {
			rows = append(rows, api.NewRow(t.Name, typeElement(t)))
		}
	}
	return ec2query.Page(in, "instanceTypeSet", rows, 5, 100)
}

func typeElement(t catalog.InstanceType) query.Element {
	kids := []query.Element{
		query.Text("instanceType", t.Name),
		query.Bool("currentGeneration", t.CurrentGeneration),
		query.Values("supportedUsageClasses", "item", t.UsageClasses),
		query.Values("supportedVirtualizationTypes", "item", []string{"hvm"}),
		query.Values("supportedRootDeviceTypes", "item", []string{"ebs"}),
		query.Bool("bareMetal", t.BareMetal()),
		query.Opt("hypervisor", t.Hypervisor),
		processorElement(t.Processor),
		query.Group("vCpuInfo", query.Int("defaultVCpus", t.VCPUs)),
		query.Group("memoryInfo", query.Int("sizeInMiB", t.MemoryMiB)),
		query.Bool("instanceStorageSupported", t.Storage.LocalGB > 0),
		ebsElement(t), networkElement(t), placementElement(t),
	}
	if t.Storage.LocalGB > 0 {
		nvme := map[bool]string{true: "required", false: "unsupported"}[t.Storage.NVMe]
		kids = append(kids, query.Group("instanceStorageInfo",
			query.Int("totalSizeInGB", t.Storage.LocalGB), query.Text("nvmeSupport", nvme)))
	}
	if t.HasGPU() {
		kids = append(kids, query.Group("gpuInfo",
			query.List("gpus", "item", []query.Element{query.Group("item",
				query.Text("name", t.GPU.Name), query.Text("manufacturer", t.GPU.Manufacturer), query.Int("count", t.GPU.Count),
				query.Group("memoryInfo", query.Int("sizeInMiB", t.GPU.MemoryMiB)))}),
			query.Int("totalGpuMemoryInMiB", t.GPU.MemoryMiB*max(t.GPU.Count, 1))))
	}
	return query.Group("item", append(kids, acceleratorElements(t.Accelerator)...)...)
}

func processorElement(p catalog.Processor) query.Element {
	kids := []query.Element{query.Values("supportedArchitectures", "item", p.Architectures), query.Text("manufacturer", p.Manufacturer)}
	if p.ClockMHz > 0 {
		kids = append(kids, query.Text("sustainedClockSpeedInGhz", fmt.Sprintf("%.2f", float64(p.ClockMHz)/1000)))
	}
	if len(p.Features) > 0 {
		kids = append(kids, query.Values("supportedFeatures", "item", p.Features))
	}
	return query.Group("processorInfo", kids...)
}

// acceleratorElements are those of a type with accelerators. EC2 reports Inferentia
// both as an inference accelerator and as a Neuron device, Trainium as the latter
// only.
func acceleratorElements(a catalog.Accelerator) []query.Element {
	if a.Count == 0 {
		return nil
	}
	memory := query.Group("memoryInfo", query.Int("sizeInMiB", a.MemoryMiB))
	var out []query.Element
	if a.NeuronCores == 0 || strings.HasPrefix(a.Name, "Inferentia") {
		out = append(out, query.Group("inferenceAcceleratorInfo",
			query.List("accelerators", "member", []query.Element{query.Group("member",
				query.Text("name", a.Name), query.Text("manufacturer", a.Manufacturer), query.Int("count", a.Count), memory)}),
			query.Int("totalInferenceMemoryInMiB", a.MemoryMiB*a.Count)))
	}
	if a.NeuronCores > 0 {
		out = append(out, query.Group("neuronInfo",
			query.List("neuronDevices", "item", []query.Element{query.Group("item",
				query.Text("name", a.Name), query.Int("count", a.Count),
				query.Group("coreInfo", query.Int("count", a.NeuronCores)), memory)}),
			query.Int("totalNeuronDeviceMemoryInMiB", a.MemoryMiB*a.Count)))
	}
	return out
}

func ebsElement(t catalog.InstanceType) query.Element {
	kids := []query.Element{query.Text("ebsOptimizedSupport", t.Storage.EBSOptimized), query.Text("encryptionSupport", "supported")}
	if t.Storage.EBSMbps > 0 {
		kids = append(kids, query.Group("ebsOptimizedInfo", query.Int("maximumBandwidthInMbps", t.Storage.EBSMbps)))
	}
	return query.Group("ebsInfo", kids...)
}

func networkElement(t catalog.InstanceType) query.Element {
	var cards []query.Element
	for i, most := range t.Network.Cards {
		cards = append(cards, query.Group("item", query.Int("networkCardIndex", i), query.Int("maximumNetworkInterfaces", most)))
	}
	kids := []query.Element{
		query.Int("maximumNetworkInterfaces", t.MaxInterfaces()),
		query.Int("maximumNetworkCards", len(cards)),
		query.Int("defaultNetworkCardIndex", t.Network.DefaultCard),
		query.List("networkCards", "item", cards),
		query.Int("ipv4AddressesPerInterface", t.Network.IPv4PerInterface),
		query.Bool("ipv6Supported", true),
		query.Text("enaSupport", t.Network.ENA),
		query.Bool("efaSupported", t.Network.EFAInterfaces > 0),
		query.Bool("encryptionInTransitSupported", t.Network.EncryptionInTransit),
	}
	if t.Network.EFAInterfaces > 0 {
		kids = append(kids, query.Group("efaInfo", query.Int("maximumEfaInterfaces", t.Network.EFAInterfaces)))
	}
	return query.Group("networkInfo", kids...)
}

func placementElement(t catalog.InstanceType) query.Element {
	strategies := []string{"partition", "spread"}
	if t.Network.ClusterPlacement {
		strategies = append([]string{"cluster"}, strategies...)
	}
	return query.Group("placementGroupInfo", query.Values("supportedStrategies", "item", strategies))
}

// offering is an instance type in a location.
type offering struct{ kind, location string }

func (svc *Service) describeOfferings(in *api.Call) (any, error) {
	where := in.Form.Get("LocationType")
	var locations []string
	switch where {
	case "", "region":
		where, locations = "region", []string{svc.account.Region}
	case "availability-zone", "availability-zone-id":
		for _, z := range svc.zones {
			locations = append(locations, map[bool]string{true: z.Name, false: z.ID}[where == "availability-zone"])
		}
	default:
		return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter locationType is invalid.", where)
	}
	var all []offering
	for _, t := range svc.types {
		for _, l := range locations {
			z, zonal := svc.Zone(l)
			if zonal && !svc.Offered(t.Name, z.Name) {
				continue
			}
			all = append(all, offering{t.Name, l})
		}
	}
	found, err := ec2query.Choose(in, all, ec2query.Attributes[offering]{
		"instance-type": ec2query.One(func(o offering) string { return o.kind }),
		"location":      ec2query.One(func(o offering) string { return o.location }),
	}, nil)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, o := range found {
		rows = append(rows, api.NewRow(o.kind+"/"+o.location, query.Group("item",
			query.Text("instanceType", o.kind), query.Text("locationType", where), query.Text("location", o.location))))
	}
	return ec2query.Page(in, "instanceTypeOfferingSet", rows, 5, 1000)
}

// spotProducts are the descriptions under which Linux spot is sold.
func spotProducts() []string { return []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"} }

// quote is a spot price at the moment. It does not move, so the history is one
// point long.
type quote struct {
	kind, zone, zoneID, product string
	dollars                     float64
}

func (svc *Service) describeSpotPrices(in *api.Call) (any, error) {
	quotes, err := svc.quotes()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"StartTime", "EndTime"} {
		if _, err := time.Parse(time.RFC3339, in.Form.Get(name)); in.Form.Has(name) && err != nil {
			return nil, api.Refuse("InvalidParameterValue", "Value (%s) for parameter %s is not a time.", in.Form.Get(name), name)
		}
	}
	found, err := ec2query.Choose(in, quotes, ec2query.Attributes[quote]{
		"instance-type":        ec2query.One(func(q quote) string { return q.kind }),
		"availability-zone":    ec2query.One(func(q quote) string { return q.zone }),
		"availability-zone-id": ec2query.One(func(q quote) string { return q.zoneID }),
		"product-description":  ec2query.One(func(q quote) string { return q.product }),
	}, nil)
	if err != nil {
		return nil, err
	}
	zone, types, products := in.Form.Get("AvailabilityZone"), in.Form.List("InstanceType"), in.Form.List("ProductDescription")
	var rows []api.Row
	for _, q := range found {
		if zone != "" && q.zone != zone || len(types) > 0 && !slices.Contains(types, q.kind) ||
			len(products) > 0 && !slices.Contains(products, q.product) {
			continue
		}
		rows = append(rows, api.NewRow(q.kind+"/"+q.zone+"/"+q.product, query.Group("item",
			query.Text("instanceType", q.kind), query.Text("productDescription", q.product),
			query.Text("spotPrice", fmt.Sprintf("%.6f", q.dollars)), query.Text("timestamp", ec2query.Stamp(in.Now)),
			query.Text("availabilityZone", q.zone), query.Text("availabilityZoneId", q.zoneID))))
	}
	return ec2query.Page(in, "spotPriceHistorySet", rows, 1, 1000)
}

func (svc *Service) quotes() ([]quote, error) {
	var out []quote
	for _, t := range svc.types {
		if !Sold(t, Spot) || t.OnDemandUSD == 0 {
			continue // Without a list price of this region there is none of spot to be made up.
		}
		for _, z := range svc.zones {
			if !svc.Offered(t.Name, z.Name) {
				continue
			}
			dollars, err := svc.Price(t, z, Spot)
			if err != nil {
				return nil, err
			}
			for _, p := range spotProducts() {
				out = append(out, quote{t.Name, z.Name, z.ID, p, dollars})
			}
		}
	}
	return out, nil
}
