package chart

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resources are the memory and CPU of the controller's container.
type resources struct{ goMemLimit, limit, cpu, memory string }

func resourcesOf(t *testing.T, all objects) resources {
	t.Helper()
	containers, _ := at(all["Deployment/"+namespace+"/poolwright"], "spec", "template", "spec", "containers").([]any)
	if len(containers) != 1 {
		t.Fatalf("there are %d containers", len(containers))
	}
	container, _ := containers[0].(map[string]any)
	return resources{
		goMemLimit: variable(container, "GOMEMLIMIT"), limit: field(container, "resources", "limits", "memory"),
		cpu: field(container, "resources", "requests", "cpu"), memory: field(container, "resources", "requests", "memory"),
	}
}

// sizeRow matches a row of the table of sizes in the chart's README: the size, GOMEMLIMIT, the limit, what is requested, the memory and
// how that is known.
var sizeRow = regexp.MustCompile(`(?m)^\| (\w+) \| (\d+) MiB \| (\d+) MiB \| (\w+), (\w+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$`)

// measuredBy matches how a row is measured: the flags of the test.
var measuredBy = regexp.MustCompile("^measured, `-nodes (\\d+) -sync-objects (\\d+)`$")

func TestTheTableOfSizesIsWhatTheChartRenders(t *testing.T) {
	page, err := os.ReadFile(charts + "/poolwright/README.md")
	if err != nil {
		t.Fatal(err)
	}
	chart, rows := load(t, "poolwright"), map[string]resources{}
	for _, row := range sizeRow.FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = resources{row[2] + "MiB", row[3] + "Mi", row[4], row[5]}
		if got := resourcesOf(t, rendered(t, chart, parseValues(t, "resources: {clusterSize: "+row[1]+"}"), namespace)); got != rows[row[1]] {
			t.Errorf("%s renders %+v, and the page has %+v", row[1], got, rows[row[1]])
		}
	}
	var schema struct {
		Properties struct {
			Resources struct {
				Properties struct {
					ClusterSize struct{ Enum []string }
				}
			}
		}
	}
	if err := json.Unmarshal(chart.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	sizes := schema.Properties.Resources.Properties.ClusterSize.Enum
	for _, size := range sizes {
		if _, is := rows[size]; !is {
			t.Errorf("the page has no row of %s", size)
		}
	}
	if len(rows) != len(sizes) {
		t.Errorf("the page has %d rows, and the schema %d sizes", len(rows), len(sizes))
	}
	// Medium is the default, which is config/default.
	for name, all := range map[string]objects{"the chart without values": rendered(t, chart, nil, namespace), "config/default": installed(t)} {
		if d := cmp.Diff(rows["Medium"], resourcesOf(t, all), cmp.AllowUnexported(resources{})); d != "" {
			t.Errorf("%s differs from the page's Medium (-page +objects):\n%s", name, d)
		}
	}
}

// thousands matches the comma in a number.
var thousands = regexp.MustCompile(`(\d),(\d)`)

func TestEachSizeIsMeasuredOrCalledAnEstimate(t *testing.T) {
	page, err := os.ReadFile(charts + "/poolwright/README.md")
	if err != nil {
		t.Fatal(err)
	}
	limits, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	measurements := thousands.ReplaceAllString(string(limits), "$1$2")
	measured := 0
	for _, row := range sizeRow.FindAllStringSubmatch(string(page), -1) {
		size, requests, memory, by := row[1], row[5], row[6], row[7]
		flags := measuredBy.FindStringSubmatch(by)
		if flags == nil {
			if by != "estimate" || memory != "unknown" {
				t.Errorf("%s: the memory %q is by %q, which is neither measured nor an estimate", size, memory, by)
			}
			continue
		}
		measured++
		// docs/limits.md has what was measured.
		found := regexp.MustCompile(`\| with the engine, ` + flags[1] + ` nodes with a pod each, ` + flags[2] + ` objects in one Sync \| [^|]+ \| (\d+ MiB)`).FindStringSubmatch(measurements)
		if found == nil || found[1] != memory {
			t.Errorf("%s: docs/limits.md has %q for %s, and the page %s", size, found, by, memory)
		}
		if used := quantity(t, strings.TrimSuffix(memory, " MiB")+"Mi"); quantity(t, requests) < used {
			t.Errorf("%s requests %s, less than the %s that it takes", size, requests, memory)
		}
	}
	if measured == 0 {
		t.Error("no row is measured")
	}
}
