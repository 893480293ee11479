package monitoring

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

var update = flag.Bool("update", false, "draw the images of docs/images anew")

// `make dashboards` draws them anew.
func TestTheImagesAreThoseOfTheDashboardsAndTheRecording(t *testing.T) {
	demo := parseSeries(t, strings.Join(lines(t, "testdata/demo.txt"), "\n"), Interval)
	boards, err := Dashboards(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, board := range boards {
		of := map[int][]Line{}
		for _, panel := range board.Panels {
			of[panel.ID] = panelLines(t, demo, panel)
		}
		svg, path := Draw(board, of), filepath.Join(root, "docs", "images", "dashboard-"+board.File+".svg")
		if *update {
			if err := os.WriteFile(path, []byte(svg), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != svg {
			t.Errorf("%s is not of the dashboard and the recording; make dashboards draws it anew (%v)", path, err)
		}
	}
}

// panelLines evaluates the queries of a panel on the recording.
func panelLines(t *testing.T, s series, panel Panel) (all []Line) {
	t.Helper()
	instant := lastNode(s)
	for _, target := range panel.Targets {
		var of []Line
		for _, one := range s.evaluate(t, variables.Replace(target.Expr), Interval) {
			line := Line{Legend: legend(target.LegendFormat, one.Metric), Labels: one.Metric.Map(), Points: numbers(one)}
			if panel.Type != "timeseries" {
				line.Points = slices.DeleteFunc(line.Points, func(p Point) bool { return p.Seconds != instant })
			}
			if len(line.Points) > 0 {
				of = append(of, line)
			}
		}
		SortLines(of)
		all = append(all, of...)
	}
	return all
}

// lastNode is the last second in which a pool has a node, which panels without a time are of: afterwards they would show that there is none.
func lastNode(s series) (seconds float64) {
	for _, one := range s {
		if one.Metric.Get(labels.MetricName) != "karpenter_nodepools_usage" || one.Metric.Get("resource_type") != "nodes" {
			continue
		}
		for _, p := range numbers(one) {
			if p.Value > 0 {
				seconds = max(seconds, p.Seconds)
			}
		}
	}
	return seconds
}

func numbers(one promql.Series) (points []Point) {
	for _, p := range one.Floats {
		if !math.IsNaN(p.F) && !math.IsInf(p.F, 0) {
			points = append(points, Point{float64(p.T-start.UnixMilli()) / 1000, p.F})
		}
	}
	return points
}

var label = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

func legend(format string, of labels.Labels) string {
	return label.ReplaceAllStringFunc(format, func(m string) string { return of.Get(label.FindStringSubmatch(m)[1]) })
}

func TestAPanelIsDrawnWithItsValuesLegendsAndGaps(t *testing.T) {
	board := Dashboard{Title: "A & B", Panels: []Panel{{ID: 1, Type: "timeseries", Title: "Nodes"}, {ID: 2, Type: "stat", Title: "Costs"}, {ID: 3, Type: "table", Title: "Types"}, {ID: 4, Type: "stat", Title: "Nothing"}, {ID: 5, Type: "row", Title: "Use"}}}
	for i := range board.Panels {
		board.Panels[i].GridPos.W, board.Panels[i].GridPos.H = 12, 8
	}
	board.Panels[0].FieldConfig.Defaults.Custom.Stacking.Mode = "normal"
	board.Panels[1].FieldConfig.Defaults.Unit = "currencyUSD"
	got := Draw(board, map[int][]Line{
		1: {{Legend: "spot", Points: []Point{{0, 2}, {1, 2}, {5, 2}}}, {Legend: "on-demand", Points: []Point{{0, 1}, {1, 1}, {5, 1}}}},
		2: {{Points: []Point{{0, 9}, {1, 1.5}}}},
		3: {{Labels: map[string]string{"zone": "1a", "type": "<g4dn>"}, Points: []Point{{0, 7}}}},
	})
	for text, times := range map[string]int{
		">A &amp; B<": 1, ">spot<": 1, ">on-demand<": 1, ">$1.5<": 1, ">type<": 1, ">zone<": 1, ">&lt;g4dn&gt;<": 1, ">7<": 1, ">No data<": 1, ">▾ Use<": 1,
		// Two lines with a gap are four, of which two are a single point without an area.
		`class="l"`: 4, "h2": 2, "fill-opacity": 2,
		// On top of one another they reach 3.
		">3<": 1, ">4<": 0,
	} {
		if n := strings.Count(got, text); n != times {
			t.Errorf("%q is in it %d times, not %d", text, n, times)
		}
	}
}

func TestUnitsAreWrittenAsGrafanaDoes(t *testing.T) {
	for want, c := range map[string]struct {
		unit  string
		value float64
	}{
		"$0.526": {"currencyUSD", 0.526}, "75%": {"percentunit", 0.75}, "250 ms": {"s", 0.25}, "12.5 s": {"s", 12.5}, "96 MiB": {"bytes", 96 << 20}, "2 req/s": {"reqps", 2}, "3": {"short", 3}, "0 s": {"s", 0},
	} {
		if got := format(c.unit, c.value); got != want {
			t.Errorf("%g %s is %q, not %q", c.value, c.unit, got, want)
		}
	}
}
