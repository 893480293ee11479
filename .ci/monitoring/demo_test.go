package monitoring

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// notInTheDemo are metrics without a series in the demo, or queries that return none, and why.
var notInTheDemo = map[string]string{
	"karpenter_cloudprovider_instance_launch_failures_total": "EC2 refuses no offering there",
	"poolwright_forge_errors_total":                          "the forge fails no request",
	"poolwright_gpu_nodes_replaced_total":                    "each node offers its GPUs",
	"poolwright_gpu_nodes_unhealthy":                         "each node offers its GPUs",
	"poolwright_sync_failures_total":                         "the Sync is ready in each run",
	"poolwright_webhooks_total":                              "no webhook is set up: pull requests are polled",
}

// `make monitoring` records the demo anew.
func TestEachQueryReturnsASeriesInTheDemo(t *testing.T) {
	demo := parseSeries(t, strings.Join(lines(t, "testdata/demo.txt"), "\n"), Interval)
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	queries, err := Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	absent := map[string]bool{}
	// Alerts fire when something is wrong: their tests are their own.
	for _, query := range queries[len(rules):] {
		var without []string
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, is := node.(*parser.VectorSelector); is && len(demo.evaluate(t, s.String(), Interval)) == 0 {
				without = append(without, s.Name)
				absent[s.Name] = true
			}
			return nil
		})
		for _, name := range without {
			if notInTheDemo[name] == "" {
				t.Errorf("%s: the demo has no series of %s that it selects", query.Place, name)
			}
		}
		if len(without) > 0 || slices.ContainsFunc(demo.evaluate(t, query.Expr, Interval), hasNumber) {
			continue
		}
		if absent[query.Place] = true; notInTheDemo[query.Place] == "" {
			t.Errorf("%s: it returns nothing:\n%s", query.Place, query.Expr)
		}
	}
	for name := range notInTheDemo {
		if !absent[name] {
			t.Errorf("%s returns a series in the demo, or is gone: it is no exception", name)
		}
	}
}

// hasNumber is false for a quantile of nothing.
func hasNumber(s promql.Series) bool {
	return slices.ContainsFunc(s.Floats, func(p promql.FPoint) bool { return !math.IsNaN(p.F) })
}
