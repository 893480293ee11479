package monitoring

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// `make monitoring` records the demo anew. Where nothing fails in it, end-to-end tests await the series.
func TestEachQueryReturnsASeriesInTheDemoOrInAFault(t *testing.T) {
	demo := parseSeries(t, strings.Join(lines(t, "testdata/demo.txt"), "\n"), Interval)
	for _, f := range faults(t) {
		if len(demo.evaluate(t, selector(f.series), Interval)) == 0 {
			demo = append(demo, parseSeries(t, f.series, Interval)...)
		} else if f.of == selector(f.series) {
			t.Errorf("the demo has a series of %s", f.of)
		}
	}
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	queries, err := Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	// Alerts fire when something is wrong: their tests are their own.
	for _, query := range queries[len(rules):] {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query.Expr)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, is := node.(*parser.VectorSelector); is && len(demo.evaluate(t, s.String(), Interval)) == 0 {
				t.Errorf("%s: there is no series of %s that it selects", query.Place, s.Name)
			}
			return nil
		})
		if !slices.ContainsFunc(demo.evaluate(t, query.Expr, Interval), hasNumber) {
			t.Errorf("%s: it returns nothing:\n%s", query.Place, query.Expr)
		}
	}
}

// selector is the name of a series, without its labels.
func selector(series string) string {
	name, _, _ := strings.Cut(series, "{")
	return name
}

// hasNumber is false for a quantile of nothing.
func hasNumber(s promql.Series) bool {
	return slices.ContainsFunc(s.Floats, func(p promql.FPoint) bool { return !math.IsNaN(p.F) })
}
