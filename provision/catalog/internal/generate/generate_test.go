package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
)

// After the provider's module is raised, this asks for a new table.
func TestTableAgreesWithThePinnedProviderModule(t *testing.T) {
	module, err := readModule()
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	const remedy = "run the generator, see the package comment"
	if c.PriceDate() != module.priceDate {
		t.Errorf("the table's prices are of %s, the module's of %s: %s", c.PriceDate(), module.priceDate, remedy)
	}
	if !slices.ContainsFunc(c.Sources(), func(s string) bool { return strings.HasSuffix(s, module.version) }) {
		t.Errorf("no source of %q is %s: %s", c.Sources(), module.version, remedy)
	}
	limits := 0
	for _, it := range c.Types() {
		if usd, ok := module.prices[it.Name]; ok && it.OnDemandUSD != usd {
			t.Errorf("%s costs %v in the table and %v in the module: %s", it.Name, it.OnDemandUSD, module.prices[it.Name], remedy)
		}
		if it.Network.BandwidthMbps != module.bandwidths[it.Name] {
			t.Errorf("%s has %d Mbps in the table and %d in the module: %s", it.Name, it.Network.BandwidthMbps, module.bandwidths[it.Name], remedy)
		}
		if differences := compareLimits(it, module.limits[it.Name]); differences != nil {
			t.Errorf("%s: %q: %s", it.Name, differences, remedy)
		}
		if _, ok := module.limits[it.Name]; ok {
			limits++
		}
	}
	if limits < 1000 {
		t.Errorf("only %d types have limits to compare with", limits)
	}
	for _, missing := range missingFrom(c, module) {
		t.Errorf("the module knows %s, the table does not: %s", missing, remedy)
	}
}

// notDescribed are the types of the module's tables that are no instance types for
// a NodePool, by their names' beginnings.
func notDescribed() []string {
	return []string{
		// EC2 describes them no longer.
		"cr1.", "dl1.", "f1.", "g2.", "g3.", "g3s.", "i3.metal", "p2.", "p3.", "u-6tb1.metal", "u-9tb1.", "u-12tb1.", "u-18tb1.", "u-24tb1.",
		// They run macOS.
		"mac",
		// The regions of the reference page do not have them.
		"p6e-gb200.", "trn2.3xlarge", "trn2u.", "u7inh-32tb.",
	}
}

// missingFrom lists the types that have a price or a bandwidth in the module and
// are not in the table, though they should be.
func missingFrom(c *catalog.Catalog, module moduleTables) []string {
	known := map[string]bool{}
	for name := range module.prices {
		known[name] = true
	}
	for name := range module.bandwidths {
		known[name] = true
	}
	return slices.DeleteFunc(sortedKeys(known), func(name string) bool {
		_, ok := c.Lookup(name)
		return ok || slices.ContainsFunc(notDescribed(), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// The test above finds gaps only if a table with a gap is found to have one.
func TestAFamilyThatTheTableLacksIsFound(t *testing.T) {
	module, err := readModule()
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	families := slices.DeleteFunc(c.Families(), func(name string) bool { return name == "inf2" })
	without, err := c.Subset(families...)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"inf2.24xlarge", "inf2.48xlarge", "inf2.8xlarge", "inf2.xlarge"}
	if diff := cmp.Diff(want, missingFrom(without, module)); diff != "" {
		t.Errorf("types missing (-want +got):\n%s", diff)
	}
}

const docsPage = `# Page
## g4dn Family
### ` + "`g4dn.xlarge`" + `
#### Labels
 | Label | Value |
 |--|--|
 |karpenter.k8s.aws/instance-cpu|4|
 |karpenter.k8s.aws/instance-cpu-manufacturer|intel|
 |karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz|2500|
 |karpenter.k8s.aws/instance-ebs-bandwidth|3500|
 |karpenter.k8s.aws/instance-encryption-in-transit-supported|true|
 |karpenter.k8s.aws/instance-gpu-count|1|
 |karpenter.k8s.aws/instance-gpu-manufacturer|nvidia|
 |karpenter.k8s.aws/instance-gpu-memory|16384|
 |karpenter.k8s.aws/instance-gpu-name|t4|
 |karpenter.k8s.aws/instance-hypervisor|nitro|
 |karpenter.k8s.aws/instance-local-nvme|125|
 |karpenter.k8s.aws/instance-memory|16384|
 |karpenter.k8s.aws/instance-network-bandwidth|5000|
#### Resources
 | Resource | Quantity |
 |--|--|
 |cpu|3920m|
 |memory|14162Mi|
 |pods|29|
`

const apiJSON = `{"InstanceTypes": [{
	"InstanceType": "g4dn.xlarge", "CurrentGeneration": true, "BareMetal": false, "Hypervisor": "nitro",
	"SupportedUsageClasses": ["on-demand", "spot"], "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384},
	"ProcessorInfo": {"Manufacturer": "Intel", "SupportedArchitectures": ["x86_64"], "SustainedClockSpeedInGhz": 2.5},
	"GpuInfo": {"Gpus": [{"Name": "T4", "Manufacturer": "NVIDIA", "Count": 1, "MemoryInfo": {"SizeInMiB": 16384}}]},
	"NetworkInfo": {"NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3}], "DefaultNetworkCardIndex": 0,
		"Ipv4AddressesPerInterface": 10, "EncryptionInTransitSupported": true, "EnaSupport": "required"},
	"EbsInfo": {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 3500}},
	"InstanceStorageInfo": {"NvmeSupport": "required", "TotalSizeInGB": 125},
	"PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]}
}]}`

func TestGeneratorTakesAgreeingSourcesAndNamesDisagreements(t *testing.T) {
	for name, c := range map[string]struct {
		docs, api [2]string
		log, err  string
	}{
		"sources that agree":                   {},
		"a clock speed revised by EC2":         {docs: [2]string{"mhz|2500", "mhz|2600"}, log: `docs "2600", API "2500"`},
		"a GPU memory in dispute":              {docs: [2]string{"gpu-memory|16384", "gpu-memory|15360"}, err: `g4dn.xlarge gpu-memory: docs "15360", API "16384"`},
		"a pod density in dispute":             {docs: [2]string{"pods|29", "pods|58"}, err: `pods: docs "58", API "29"`},
		"interfaces that the module disputes":  {api: [2]string{`Interfaces": 3`, `Interfaces": 4`}, err: "module [3], API [4]"},
		"a hypervisor in dispute":              {api: [2]string{`false, "Hypervisor": "nitro"`, `true, "Hypervisor": ""`}, err: "bare metal"},
		"local disks that are not NVMe":        {api: [2]string{`"NvmeSupport": "required"`, `"NvmeSupport": "unsupported"`}, err: `local-nvme: docs "125"`},
		"local disks of an unknown kind":       {api: [2]string{`"NvmeSupport": "required"`, `"NvmeSupport": "tape"`}, err: "NVMe"},
		"a type that only the page has":        {docs: [2]string{"# Page\n", "### `a9.large`\n"}, err: "a9.large is on the reference page"},
		"a type that only the API has":         {api: [2]string{`{"InstanceTypes": [`, `{"InstanceTypes": [{"InstanceType": "mac1.metal"},`}, log: "left out mac1.metal"},
		"accelerators that the page lacks":     {api: [2]string{`"NetworkInfo"`, `"NeuronInfo": {"NeuronDevices": [{"Name": "A", "Count": 1, "CoreInfo": {"Count": 2}, "MemoryInfo": {"SizeInMiB": 1}}]}, "NetworkInfo"`}, err: `neuroncore: docs "", API "2"`},
		"network cards out of order":           {api: [2]string{`CardIndex": 0, "Max`, `CardIndex": 1, "Max`}, err: "network card 0 has index 1"},
		"a type that no placement group takes": {api: [2]string{`, "spread"`, ``}, err: "no spread placement group"},
		"a page without instance types":        {docs: [2]string{"### ", "#### "}, err: "describes no instance type"},
		"a response that is cut short":         {api: [2]string{`}]}`, ``}, err: "parsing the API response"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			docs := writeFile(t, dir, "docs.md", edited(t, docsPage, c.docs))
			api := writeFile(t, dir, "api.json", edited(t, apiJSON, c.api))
			out := filepath.Join(dir, "types.csv")
			var log bytes.Buffer
			err := run([]string{"-docs", docs, "-api", "2026-08-02=" + api, "-out", out}, &log)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v does not say %s", err, c.err)
				}
				if _, err := os.Stat(out); err == nil {
					t.Error("a table was written all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), c.log) {
				t.Errorf("the log does not say %q", c.log)
			}
			sameAsEmbedded(t, out)
		})
	}
}

func TestNewerPricesFillInWhatTheModuleLacks(t *testing.T) {
	path := writeFile(t, t.TempDir(), "prices.go", `package pricing

// generated at 2026-07-20T13:44:30Z for us-east-1

var InitialOnDemandPricesAWS = map[string]map[string]float64{"us-east-1": {"old.large": 9, "new.large": 2.5}}
`)
	m := moduleTables{prices: map[string]float64{"old.large": 1}}
	date, err := m.addPrices(path)
	if err != nil || date != "2026-07-20" {
		t.Errorf("the date is %q, the error %v", date, err)
	}
	if diff := cmp.Diff(map[string]float64{"old.large": 1, "new.large": 2.5}, m.prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
}

func sameAsEmbedded(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	made, err := catalog.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	built, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	want, _ := built.Lookup("g4dn.xlarge")
	if diff := cmp.Diff([]catalog.InstanceType{want}, made.Types()); diff != "" {
		t.Errorf("types made (-embedded +made):\n%s", diff)
	}
}

func TestEarlierResponsesWin(t *testing.T) {
	dir := t.TempDir()
	newer := writeFile(t, dir, "new.json", `{"InstanceTypes": [{"InstanceType": "a", "Hypervisor": "new"}]}`)
	older := writeFile(t, dir, "old.json", `{"a": {"InstanceType": "a", "Hypervisor": "old"}, "b": {"InstanceType": "b", "Hypervisor": "old"}}`)
	got, err := readAPI([]apiResponse{{path: newer}, {path: older}})
	if err != nil {
		t.Fatal(err)
	}
	hypervisors := maps.Collect(func(yield func(string, string) bool) {
		for name, a := range got {
			if !yield(name, a.Hypervisor) {
				return
			}
		}
	})
	if diff := cmp.Diff(map[string]string{"a": "new", "b": "old"}, hypervisors); diff != "" {
		t.Errorf("descriptions taken (-want +got):\n%s", diff)
	}
}

func TestFlagsThatAreMissingOrMalformedAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"-docs and -api are required": {"-docs", "x"},
		"YYYY-MM-DD=FILE":             {"-docs", "x", "-api", "x.json"},
		"reading the reference page":  {"-docs", "does-not-exist", "-api", "2026-08-02=x.json"},
	} {
		if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("flags %q: error %v does not say %s", args, err, want)
		}
	}
}

// edited replaces the first text by the second, once, and insists that it is there.
func edited(t *testing.T, text string, edit [2]string) string {
	t.Helper()
	if !strings.Contains(text, edit[0]) {
		t.Fatalf("the fixture has no %q to replace", edit[0])
	}
	return strings.Replace(text, edit[0], edit[1], 1)
}

func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
