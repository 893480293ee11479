package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func load(t testing.TB) *Catalog {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWellKnownTypesHaveTheirPublishedFigures(t *testing.T) {
	c := load(t)
	type figures struct {
		VCPUs, MemoryMiB int
		GPU              GPU
		NVMe             int
		Interfaces, IPv4 int
		EFA, Pods        int
		Architecture     string
		Manufacturer     string
		Hypervisor       string
		USD              float64
	}
	gpu := func(name string, count, memory int) GPU { return GPU{name, "NVIDIA", count, memory} }
	for name, want := range map[string]figures{
		"g4dn.xlarge":   {4, 16384, gpu("T4", 1, 16384), 125, 3, 10, 0, 29, "x86_64", "Intel", "nitro", 0.526},
		"g4dn.2xlarge":  {8, 32768, gpu("T4", 1, 16384), 225, 3, 10, 0, 29, "x86_64", "Intel", "nitro", 0.752},
		"g4dn.12xlarge": {48, 196608, gpu("T4", 4, 16384), 900, 8, 30, 1, 234, "x86_64", "Intel", "nitro", 3.912},
		"g4dn.metal":    {96, 393216, gpu("T4", 8, 16384), 1800, 15, 50, 1, 737, "x86_64", "Intel", "", 7.824},
		"g5.xlarge":     {4, 16384, gpu("A10G", 1, 22888), 250, 4, 15, 0, 58, "x86_64", "AMD", "nitro", 1.006},
		"g5g.xlarge":    {4, 8192, gpu("T4g", 1, 16384), 0, 4, 15, 0, 58, "arm64", "AWS", "nitro", 0.42},
		"g6.xlarge":     {4, 16384, gpu("L4", 1, 22888), 250, 4, 15, 0, 58, "x86_64", "AMD", "nitro", 0.8048},
		"g6e.xlarge":    {4, 32768, gpu("L40S", 1, 45776), 250, 4, 15, 0, 58, "x86_64", "AMD", "nitro", 1.861},
		"g7.2xlarge":    {8, 32768, gpu("RTX PRO 4500", 1, 32768), 440, 4, 64, 0, 254, "x86_64", "Intel", "nitro", 2.52},
		"p5e.48xlarge":  {192, 2097152, gpu("H200", 8, 144384), 30400, 64, 50, 32, 100, "x86_64", "AMD", "nitro", 0},
		"inf2.xlarge":   {4, 16384, GPU{}, 0, 4, 15, 0, 58, "x86_64", "AMD", "nitro", 0.7582},
		"c3.large":      {2, 3840, GPU{}, 32, 3, 10, 0, 29, "i386", "Intel", "xen", 0.105},
		"p4d.24xlarge":  {96, 1179648, gpu("A100", 8, 40960), 8000, 60, 50, 4, 737, "x86_64", "Intel", "nitro", 21.957642},
		"p4de.24xlarge": {96, 1179648, gpu("A100", 8, 81920), 8000, 60, 50, 4, 737, "x86_64", "Intel", "nitro", 27.44705},
		"p5.48xlarge":   {192, 2097152, gpu("H100", 8, 81920), 30400, 64, 50, 32, 100, "x86_64", "AMD", "nitro", 55.04},
		"t3.small":      {2, 2048, GPU{}, 0, 3, 4, 0, 11, "x86_64", "Intel", "nitro", 0.0208},
		"t4g.medium":    {2, 4096, GPU{}, 0, 3, 6, 0, 17, "arm64", "AWS", "nitro", 0.0336},
		"m5.large":      {2, 8192, GPU{}, 0, 3, 10, 0, 29, "x86_64", "Intel", "nitro", 0.096},
		"c5.large":      {2, 4096, GPU{}, 0, 3, 10, 0, 29, "x86_64", "Intel", "nitro", 0.085},
		"r5.2xlarge":    {8, 65536, GPU{}, 0, 4, 15, 0, 58, "x86_64", "Intel", "nitro", 0.504},
		"m7i.48xlarge":  {192, 786432, GPU{}, 0, 15, 50, 1, 737, "x86_64", "Intel", "nitro", 9.6768},
	} {
		t.Run(name, func(t *testing.T) {
			it, ok := c.Lookup(name)
			if !ok {
				t.Fatal("it is not in the catalog")
			}
			got := figures{it.VCPUs, it.MemoryMiB, it.GPU, it.Storage.LocalGB, it.MaxInterfaces(), it.Network.IPv4PerInterface,
				it.Network.EFAInterfaces, it.MaxPods(), it.Processor.Architectures[0], it.Processor.Manufacturer, it.Hypervisor, it.OnDemandUSD}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
			if it.BareMetal() != strings.Contains(name, "metal") {
				t.Errorf("bare metal is %t", it.BareMetal())
			}
		})
	}
}

func TestFamiliesThatSetUpsNameHaveAllTheirSizes(t *testing.T) {
	c := load(t)
	sizes := map[string][]string{}
	for _, it := range c.Types() {
		sizes[it.Family()] = append(sizes[it.Family()], it.Size())
	}
	const burstable = "nano micro small medium large xlarge 2xlarge"
	const skylake = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge metal"
	const icelake = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge metal"
	const gpu = "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"
	for family, want := range map[string]string{
		"t3": burstable, "t3a": burstable, "t4g": burstable,
		"m5": skylake, "m5n": skylake, "m5dn": skylake, "r5": skylake,
		"c5":  "large xlarge 2xlarge 4xlarge 9xlarge 12xlarge 18xlarge 24xlarge metal",
		"m6i": icelake, "c6i": icelake, "r6i": icelake,
		"m7i":  "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl",
		"g4dn": "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal",
		"g5":   gpu, "g6": gpu, "g6e": gpu,
		"g7":   "2xlarge 4xlarge 8xlarge 12xlarge 24xlarge 48xlarge",
		"p3dn": "24xlarge", "p4d": "24xlarge", "p4de": "24xlarge", "p5": "4xlarge 48xlarge", "p5e": "48xlarge",
		"inf1": "xlarge 2xlarge 6xlarge 24xlarge", "inf2": "xlarge 8xlarge 24xlarge 48xlarge",
		"trn1": "2xlarge 32xlarge", "trn1n": "32xlarge", "trn2": "48xlarge", "dl2q": "24xlarge", "vt1": "3xlarge 6xlarge 24xlarge",
	} {
		expected := strings.Fields(want)
		slices.Sort(expected)
		if diff := cmp.Diff(expected, sizes[family]); diff != "" {
			t.Errorf("sizes of %s (-want +got):\n%s", family, diff)
		}
	}
}

func TestTypesAreSortedUniqueAndWithoutGaps(t *testing.T) {
	types := load(t).Types()
	if len(types) < 1300 {
		t.Errorf("the catalog has only %d types", len(types))
	}
	for i, it := range types {
		if i > 0 && types[i-1].Name >= it.Name {
			t.Errorf("%s follows %s", it.Name, types[i-1].Name)
		}
		gpuFamily := strings.HasPrefix(it.Name, "g") || strings.HasPrefix(it.Name, "p")
		neuron := strings.HasPrefix(it.Name, "inf") || strings.HasPrefix(it.Name, "trn")
		if neuron != (it.Accelerator.NeuronCores > 0) || (neuron || it.Family() == "dl2q") != (it.Accelerator.Count > 0) {
			t.Errorf("%s has accelerators %+v", it.Name, it.Accelerator)
		}
		if it.HasGPU() != gpuFamily {
			t.Errorf("%s has a GPU: %t", it.Name, it.HasGPU())
		}
		fraction := strings.HasPrefix(it.Name, "g6f.") || strings.HasPrefix(it.Name, "gr6f.")
		if gpuFamily && (it.GPU.Count == 0) != fraction {
			t.Errorf("%s has %d GPUs", it.Name, it.GPU.Count)
		}
		if it.Hypervisor == "nitro" && (it.Network.BandwidthMbps == 0 || it.Storage.EBSMbps == 0 || it.Network.ENA != "required") {
			t.Errorf("%s is a Nitro type without network, EBS or ENA figures", it.Name)
		}
		if !slices.Contains(it.UsageClasses, "on-demand") {
			t.Errorf("%s cannot be had on demand", it.Name)
		}
	}
}

func TestLoadNamesTheSourcesOfFigures(t *testing.T) {
	c := load(t)
	if c.PriceDate() < "2026-01-01" {
		t.Errorf("prices are of %q", c.PriceDate())
	}
	if !slices.ContainsFunc(c.Sources(), func(s string) bool { return strings.Contains(s, "karpenter-provider-aws@v") }) {
		t.Errorf("sources %q do not name the provider's version", c.Sources())
	}
}

func TestResultsDoNotLetACallerChangeTheCatalog(t *testing.T) {
	c := load(t)
	c.Types()[0].Name = "changed"
	c.Sources()[0] = "changed"
	if c.Types()[0].Name == "changed" || c.Sources()[0] == "changed" {
		t.Error("a caller's change reached the catalog")
	}
}

func TestSubset(t *testing.T) {
	c := load(t)
	t.Run("keeps all sizes of the named families only", func(t *testing.T) {
		small, err := c.Subset("t3", "g4dn")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"g4dn", "t3"}, small.Families()); diff != "" {
			t.Errorf("families (-want +got):\n%s", diff)
		}
		if got := len(small.Types()); got != 14 {
			t.Errorf("%d types instead of 14", got)
		}
		if _, ok := small.Lookup("m5.large"); ok {
			t.Error("m5.large is still there")
		}
		if _, ok := small.Lookup("g4dn.xlarge"); !ok {
			t.Error("g4dn.xlarge is gone")
		}
	})
	t.Run("names a family that does not exist", func(t *testing.T) {
		_, err := c.Subset("t3", "g4nd")
		if err == nil || !strings.Contains(err.Error(), `"g4nd"`) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	good, _ := load(t).Lookup("g4dn.xlarge")
	for name, c := range map[string]struct {
		date   string
		source string
		change func(*InstanceType)
		twice  bool
		want   string
	}{
		"a price date that is no date":   {date: "July", want: `"July"`},
		"a source of two lines":          {source: "a\nb", want: `"a\nb"`},
		"a type that is there twice":     {twice: true, want: `"g4dn.xlarge" is there twice`},
		"a type without a size":          {change: func(t *InstanceType) { t.Name = "g4dn" }, want: `"g4dn"`},
		"a type without CPUs":            {change: func(t *InstanceType) { t.VCPUs = 0 }, want: `"vcpus"`},
		"a type without network cards":   {change: func(t *InstanceType) { t.Network.Cards = nil }, want: `"network_cards"`},
		"a default card that is missing": {change: func(t *InstanceType) { t.Network.DefaultCard = 1 }, want: "default network card 1"},
		"a GPU without memory":           {change: func(t *InstanceType) { t.GPU.MemoryMiB = 0 }, want: "GPU"},
		"an unknown usage class":         {change: func(t *InstanceType) { t.UsageClasses = []string{"free"} }, want: `"free"`},
		"EBS without bandwidth":          {change: func(t *InstanceType) { t.Storage.EBSMbps = 0 }, want: "EBS"},
		"NVMe disks without a size":      {change: func(t *InstanceType) { t.Storage.LocalGB = 0 }, want: "NVMe"},
		"an accelerator without memory":  {change: func(t *InstanceType) { t.Accelerator = Accelerator{Name: "A", Manufacturer: "AWS", Count: 1} }, want: "accelerator"},
		"an unknown feature":             {change: func(t *InstanceType) { t.Processor.Features = []string{"warp"} }, want: `"warp"`},
		"a type for less than nothing":   {change: func(t *InstanceType) { t.OnDemandUSD = -1 }, want: `"on_demand_usd"`},
	} {
		t.Run(name, func(t *testing.T) {
			it, date, sources := good, "2026-07-06", []string(nil)
			if c.change != nil {
				c.change(&it)
			}
			if c.date != "" {
				date = c.date
			}
			if c.source != "" {
				sources = []string{c.source}
			}
			types := []InstanceType{it}
			if c.twice {
				types = append(types, it)
			}
			if _, err := New(date, sources, types); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %s", err, c.want)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(); err != nil {
			b.Fatal(err)
		}
	}
}
