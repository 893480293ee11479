package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrittenTableIsTheEmbeddedOne(t *testing.T) {
	var b strings.Builder
	if _, err := load(t).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(embedded, b.String()); diff != "" {
		t.Errorf("types.csv was edited by hand or columns changed; run the generator (-file +written):\n%.2000s", diff)
	}
}

// goodRow has every column, so that each case below breaks exactly one.
const goodRow = "g4dn.xlarge,4,16384,x86_64,Intel,2500,nested-virtualization,nitro,T4,NVIDIA,1,16384,,,0,0,0,1x3,0,10,0,required,true,true,5000,125,true,default,3500,on-demand spot,true,0.526"

func tableOf(rows ...string) string {
	return "# prices: 2026-07-06\n" + strings.Join(names(columns()), ",") + "\n" + strings.Join(rows, "\n") + "\n"
}

func TestBrokenTablesNameLineAndField(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(goodRow, old, new, 1) }
	for name, c := range map[string]struct {
		table string
		want  []string
	}{
		"a number that is none":                 {tableOf(replace("16384", "16 GiB")), []string{"line 3", `"memory_mib"`, `"16 GiB"`}},
		"no CPUs":                               {tableOf(replace(",4,", ",0,")), []string{"line 3", `"vcpus"`}},
		"a negative GPU count":                  {tableOf(replace("NVIDIA,1", "NVIDIA,-1")), []string{"line 3", `"gpu_count"`}},
		"a number too large to be one":          {tableOf(replace(",4,", ",99999999999,")), []string{"line 3", `"vcpus"`}},
		"an unknown architecture":               {tableOf(replace("x86_64", "riscv")), []string{"line 3", `"architectures"`, `"riscv"`}},
		"a repeated usage class":                {tableOf(replace("on-demand spot", "spot spot")), []string{"line 3", `"usage_classes"`}},
		"an unknown hypervisor":                 {tableOf(replace("nitro", "kvm")), []string{"line 3", `"hypervisor"`, `"kvm"`}},
		"a truth that is none":                  {tableOf(replace("true", "yes")), []string{"line 3", `"encryption_in_transit"`}},
		"network cards without interfaces":      {tableOf(replace("1x3", "1x")), []string{"line 3", `"network_cards"`}},
		"more network cards than exist":         {tableOf(replace("1x3", "9999999x3")), []string{"line 3", `"network_cards"`}},
		"network cards written two ways":        {tableOf(replace("1x3", "1x3+1x3")), []string{"line 3", `"network_cards"`}},
		"a feature twice":                       {tableOf(replace("nested-virtualization", "amd-sev-snp amd-sev-snp")), []string{"line 3", `"cpu_features"`}},
		"an accelerator without a manufacturer": {tableOf(replace(",,,0,0,0,", ",A,,1,1,0,")), []string{"line 3", "accelerator"}},
		"a price that is none":                  {tableOf(replace("0.526", "NaN")), []string{"line 3", `"on_demand_usd"`, "NaN"}},
		"a name with a capital":                 {tableOf(replace("g4dn", "G4dn")), []string{"line 3", `"type"`, "G4dn"}},
		"a name without size":                   {tableOf(replace("g4dn.xlarge", "g4dn")), []string{"line 3", `"g4dn"`}},
		"a GPU without a manufacturer":          {tableOf(replace("NVIDIA", "")), []string{"line 3", `"g4dn.xlarge"`, "GPU"}},
		"a field too few":                       {tableOf(goodRow, "g5.xlarge,4"), []string{"line 4", "2 fields"}},
		"the same type twice":                   {tableOf(goodRow, goodRow), []string{"line 4", `"type"`, "g4dn.xlarge"}},
		"types out of order":                    {tableOf(goodRow, replace("g4dn", "c5")), []string{"line 4", `"type"`, "c5.xlarge"}},
		"an empty line":                         {tableOf(goodRow, "", replace("g4dn", "g5")), []string{"line 4", "1 fields"}},
		"other columns":                         {"# prices: 2026-07-06\ntype,vcpus\n", []string{"line 2", "memory_mib"}},
		"no columns":                            {"# prices: 2026-07-06\n", []string{"column names"}},
		"no price date":                         {strings.Join(names(columns()), ",") + "\n" + goodRow + "\n", []string{"price date"}},
		"nothing":                               {"", []string{"column names"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(c.table))
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %s", err, want)
				}
			}
		})
	}
	if _, err := Parse(strings.NewReader(tableOf(goodRow))); err != nil {
		t.Errorf("the unbroken row is refused: %v", err)
	}
}

func TestNetworkCardsAreWrittenShort(t *testing.T) {
	for text, want := range map[string][]int{
		"1x3":         {3},
		"4x15":        {15, 15, 15, 15},
		"1x15+2x2":    {15, 2, 2},
		"1x2+1x4+1x2": {2, 4, 2},
	} {
		got, ok := parseCards(text)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if back := formatCards(got); back != text {
			t.Errorf("%s is written back as %s", text, back)
		}
	}
}

// FuzzParse holds the parser to its promise: whatever it accepts, it writes and
// reads back unchanged, and the figures derived from it do not crash.
func FuzzParse(f *testing.F) {
	f.Add(tableOf(goodRow))
	f.Add(tableOf(strings.Replace(goodRow, "1x3", "1x15+31x2", 1)))
	f.Add(tableOf(strings.Replace(goodRow, "0.526", "1e-9", 1)))
	f.Add(tableOf(goodRow, "g5.xlarge,,,"))
	f.Add("# source: a\r\n" + tableOf())
	f.Fuzz(func(t *testing.T, table string) {
		c, err := Parse(strings.NewReader(table))
		if err != nil {
			return
		}
		var b strings.Builder
		if _, err := c.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("reading back what was written: %v", err)
		}
		if diff := cmp.Diff(c.Types(), again.Types()); diff != "" {
			t.Fatalf("types changed on the way (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(c.Sources(), again.Sources()); diff != "" {
			t.Fatalf("sources changed on the way (-first +second):\n%s", diff)
		}
		for _, it := range c.Types() {
			if it.MaxPods() < 2 || it.MaxInterfaces() < 1 || it.Family() == "" || it.Size() == "" {
				t.Fatalf("%+v: %d pods on %d interfaces", it, it.MaxPods(), it.MaxInterfaces())
			}
			if price, err := c.OnDemand("us-east-1", it.Name); (err != nil) != (it.OnDemandUSD == 0) || price.USDPerHour < 0 {
				t.Fatal(price, err)
			}
		}
	})
}
