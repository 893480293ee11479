package cost_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/provision/gpu"
)

func types(t testing.TB, families ...string) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) > 0 {
		if c, err = c.Subset(families...); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func in(key string, values ...string) catalog.Requirement {
	return catalog.Requirement{Key: key, Operator: "In", Values: values}
}

func kinds(values ...string) catalog.Requirement {
	return in("node.kubernetes.io/instance-type", values...)
}

func capacityTypes(values ...string) catalog.Requirement {
	return in("karpenter.sh/capacity-type", values...)
}

func requirements(list ...catalog.Requirement) []catalog.Requirement { return list }

// pools are one of each sort.
func pools() []cost.Pool {
	return []cost.Pool{
		{Name: "whole", Requirements: requirements(kinds("g4dn.xlarge", "g5.12xlarge"), capacityTypes("spot", "on-demand"))},
		{Name: "sliced", Requirements: requirements(kinds("g4dn.12xlarge"), capacityTypes("on-demand")), PluginConfig: gpu.PluginConfig{Name: "any", Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10}},
		{Name: "divided", Requirements: requirements(kinds("g4dn.xlarge"), capacityTypes("spot")), PluginConfig: gpu.PluginConfig{Name: "mps", Strategy: gpu.SharingStrategyMPS, Replicas: 4, Renamed: true}},
		{Name: "many-gpus", Requirements: requirements(kinds("g5.48xlarge"), capacityTypes("on-demand"))},
		{Name: "plain", Requirements: requirements(in("karpenter.k8s.aws/instance-family", "t3"), capacityTypes("on-demand"))},
		{Name: "mixed", Requirements: requirements(in("karpenter.k8s.aws/instance-family", "t3", "g4dn"))},
		{Name: "static", Replicas: 3, Requirements: requirements(kinds("g4dn.xlarge"), capacityTypes("on-demand"))},
		{Name: "stays", ConsolidationDisabled: true, Requirements: requirements(kinds("g4dn.xlarge"), capacityTypes("on-demand"))},
		{Name: "static-stays", ConsolidationDisabled: true, Replicas: 2, Requirements: requirements(kinds("g4dn.xlarge"), capacityTypes("on-demand"))},
		{Name: "variable", Requirements: requirements(kinds("g4dn.xlarge", "${TYPE:=g5.xlarge}"), capacityTypes("on-demand"))},
		{Name: "half-known", Requirements: requirements(kinds("g4dn.xlarge", "g99.xlarge", "bad\x1b[31mname`|"), capacityTypes("on-demand"))},
		{Name: "unknown", Requirements: requirements(kinds("g99.xlarge"))},
		{Name: "fraction", Requirements: requirements(in("karpenter.k8s.aws/instance-family", "g6f"), capacityTypes("on-demand"))},
		{Name: "one-zone", Requirements: requirements(kinds("g5.xlarge"), capacityTypes("spot"), in("topology.kubernetes.io/zone", "eu-west-1b"))},
		{Name: "fast-disks", Requirements: requirements(kinds("g5.xlarge"), capacityTypes("spot"), catalog.Requirement{Key: "karpenter.k8s.aws/instance-local-nvme", Operator: "Gt", Values: []string{"100"}})},
		{Name: "reserved", Requirements: requirements(kinds("g5.xlarge"), capacityTypes("reserved"))},
		{Name: "anything"},
	}
}

func one(usd float64, decimals int) cost.Range {
	return cost.Range{Min: usd, Max: usd, Decimals: decimals}
}

// document has a scenario for each cause of a difference.
func document() *cost.Document {
	saving := one(50, 0)
	wrong := one(99, 0)
	row := func(name, kind, capacity string, hours float64, stated cost.Range) cost.Scenario {
		return cost.Scenario{Name: name, InstanceType: kind, CapacityType: capacity, Hours: hours, Stated: stated}
	}
	half, most := row("saves as stated", "g4dn.xlarge", "on-demand", 360, one(189.36, 2)), row("saves otherwise", "g4dn.xlarge", "on-demand", 180, one(95, 0))
	half.Saving, most.Saving = &saving, &wrong
	return &cost.Document{
		Name: "cost.yaml", Region: "eu-west-1", HoursPerMonth: 720,
		Prices: []cost.Quote{
			{InstanceType: "g4dn.xlarge", CapacityType: "on-demand", USDPerHour: 0.526},
			{InstanceType: "g4dn.xlarge", CapacityType: "spot", USDPerHour: 0.16},
			{InstanceType: "g5.xlarge", CapacityType: "spot", USDPerHour: 1.006},
			{InstanceType: "g5.xlarge", CapacityType: "on-demand", USDPerHour: 1.1},
			{InstanceType: "g99.xlarge", CapacityType: "on-demand", USDPerHour: 2},
		},
		Scenarios: []cost.Scenario{
			row("as its price makes", "g4dn.xlarge", "on-demand", 720, one(378.72, 2)),
			row("rounded", "g4dn.xlarge", "spot", 720, one(115, 0)),
			row("cut off", "g5.xlarge", "spot", 100, one(100, 0)),
			row("of another month", "g4dn.xlarge", "on-demand", 720, one(384, 0)),
			row("wrong", "g4dn.xlarge", "spot", 60, one(20, 0)),
			row("a range", "g4dn.xlarge", "spot", 60, cost.Range{Min: 10, Max: 30}),
			row("dearer today", "g5.xlarge", "on-demand", 10, one(11, 0)),
			row("no price", "g5.2xlarge", "on-demand", 720, one(800, 0)),
			row("no price, a range", "g5.2xlarge", "spot", 720, cost.Range{Min: 8, Max: 10}),
			row("a type that nobody knows", "g99.xlarge", "on-demand", 100, one(200, 0)),
			row("그것도 아무도 모른다", "g99.2xlarge", "spot", 100, one(1234567, 0)),
			row("free", "g5.2xlarge", "on-demand", 1, one(0, 0)),
			half, most,
		},
	}
}

func TestTheTableReadsAsTheGoldenFiles(t *testing.T) {
	small := types(t, "g4dn", "g5", "g6f", "t3")
	for name, q := range map[string]cost.Query{
		"pools":                      {Region: "eu-west-1", HoursPerDay: 8, Pools: pools()},
		"home":                       {Region: "us-east-1", HoursPerDay: 2.5, Pools: pools()[:3]},
		"document":                   {Region: "eu-west-1", HoursPerDay: 8, Document: document()},
		"document-of-another-region": {Region: "us-east-1", HoursPerDay: 8, Document: document()},
		"region-without-prices":      {Region: "cn-north-1", HoursPerDay: 8, Pools: pools()[:2], Document: document()},
		"region-without-zones": {Region: "eu-north-1", HoursPerDay: 8, Pools: append(pools()[:2:2],
			cost.Pool{Name: "named-zone", Requirements: requirements(kinds("g5.xlarge"), capacityTypes("spot"), in("topology.kubernetes.io/zone", "eu-north-1a"))})},
		"no-pools": {Region: "eu-west-1", HoursPerDay: 8},
	} {
		t.Run(name, func(t *testing.T) {
			table := cost.NewTable(q, small)
			for format, write := range writers(table) {
				golden.Compare(t, "testdata/"+name+"."+format, write(t))
			}
		})
	}
}

func writers(table cost.Table) map[string]func(testing.TB) string {
	out := map[string]func(testing.TB) string{}
	for format, write := range map[string]func(*bytes.Buffer) error{
		"txt": func(b *bytes.Buffer) error { return table.Text(b) }, "md": func(b *bytes.Buffer) error { return table.Markdown(b) },
		"json": func(b *bytes.Buffer) error { return table.JSON(b) },
	} {
		out[format] = func(t testing.TB) string {
			t.Helper()
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
	}
	return out
}

func TestTheSamePoolsGiveTheSameBytesInAnyOrder(t *testing.T) {
	all := types(t)
	var first string
	for range 10 {
		shuffled := pools()
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		table := cost.NewTable(cost.Query{Region: "eu-west-1", HoursPerDay: 8, Pools: shuffled, Document: document()}, all)
		got := ""
		for _, format := range []string{"txt", "md", "json"} {
			got += writers(table)[format](t)
		}
		if first == "" {
			first = got
		}
		if got != first {
			t.Fatal(cmp.Diff(first, got))
		}
	}
}

func TestJSONHasNoNullAndCanBeReadBack(t *testing.T) {
	table := cost.NewTable(cost.Query{Region: "eu-west-1", HoursPerDay: 8, Pools: pools(), Document: document()}, types(t))
	text := writers(table)["json"](t)
	if strings.Contains(text, "null") {
		t.Error("a list is null")
	}
	var again cost.Table
	if err := json.Unmarshal([]byte(text), &again); err != nil {
		t.Fatal(err)
	}
	if got := writers(again)["json"](t); got != text {
		t.Error(cmp.Diff(text, got))
	}
}

func TestTheCheapestNodeIsTheOneThatIsPaidLeastFor(t *testing.T) {
	all := types(t)
	for _, row := range cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: 8, Pools: pools()}, all).Pools {
		if row.Cheapest == nil {
			continue
		}
		if row.MostExpensive.InstanceType == "" || row.Types < 1 {
			t.Errorf("pool %s: %+v", row.Pool, row)
		}
		if row.For == "gpu" && row.Cheapest.GPUs == 0 || row.For == "pod" && row.Cheapest.GPUs > 0 {
			t.Errorf("pool %s: a %s is no node for a %s", row.Pool, row.Cheapest.InstanceType, row.For)
		}
	}
	named := cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: 8, Pools: pools()[:1]}, all).Pools[0]
	if named.Cheapest.InstanceType != "g4dn.xlarge" || named.MostExpensive.InstanceType != "g5.12xlarge" || named.Types != 2 {
		t.Errorf("%+v to %+v of %d", named.Cheapest, named.MostExpensive, named.Types)
	}
}

func TestTextOfUsualNamesFitsATerminal(t *testing.T) {
	d := document()
	d.Scenarios = d.Scenarios[:8]
	table := cost.NewTable(cost.Query{Region: "ap-northeast-2", HoursPerDay: 8, Pools: pools()[1:5], Document: d}, types(t, "g4dn", "g5", "t3"))
	for line := range strings.Lines(writers(table)["txt"](t)) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
