package monitoring

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// of Prometheus itself, which are no metric's: le is a bucket's.
var labelsOfPrometheus = []string{"le", "instance", labels.MetricName}

// known are the labels of each metric: those that the product and Karpenter register, and of those that they register only when
// they run, those in the recording.
func known(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, line := range lines(t, "testdata/registered.txt") {
		name, list, _ := strings.Cut(line, " ")
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			out[name+suffix] = strings.Split(list, ",")
		}
	}
	for _, line := range lines(t, "testdata/demo.txt") {
		for _, one := range parseSeries(t, line, Interval) {
			name := one.Metric.Get(labels.MetricName)
			one.Metric.Range(func(l labels.Label) {
				if !slices.Contains(out[name], l.Name) {
					out[name] = append(out[name], l.Name)
				}
			})
		}
	}
	return out
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(raw), "\n"), func(line string) bool { return line == "" })
}

func TestEveryQuerySelectsMetricsAndLabelsThatThereAre(t *testing.T) {
	queries, err := Queries(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(queries) < 70 {
		t.Errorf("only %d queries were found", len(queries))
	}
	metrics := known(t)
	for _, query := range queries {
		for _, problem := range errorsIn(t, query, metrics) {
			t.Errorf("%s: %s\n%s", query.Place, problem, query.Expr)
		}
	}
}

// errorsIn are metrics and labels in a query that nothing exports.
func errorsIn(t *testing.T, query Query, metrics map[string][]string) (out []string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query.Expr)
	if err != nil {
		return []string{err.Error()}
	}
	var has, used []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			if metrics[n.Name] == nil {
				out = append(out, "there is no metric "+n.Name)
			}
			has = append(has, metrics[n.Name]...)
			for _, m := range n.LabelMatchers {
				if !slices.Contains(append(metrics[n.Name], labelsOfPrometheus...), m.Name) {
					out = append(out, n.Name+" has no label "+m.Name)
				}
			}
		case *parser.AggregateExpr:
			used = append(used, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = append(used, n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	for _, name := range used {
		if !slices.Contains(append(has, labelsOfPrometheus...), name) {
			out = append(out, "none of its metrics has the label "+name)
		}
	}
	return out
}

func TestAnErrorInAQueryIsFound(t *testing.T) {
	metrics := map[string][]string{"up": {"job"}}
	for name, c := range map[string]struct{ expr, want string }{
		"no problem":                  {`sum by (job) (up{job="a"})`, ""},
		"a parenthesis too few":       {`sum by (job) (up`, "unclosed left parenthesis"},
		"another metric":              {`sum(down)`, "there is no metric down"},
		"another label":               {`up{jobs="a"}`, "up has no label jobs"},
		"a group by another label":    {`sum by (jobs) (up)`, "none of its metrics has the label jobs"},
		"a join by another label":     {`up * on (jobs) up`, "none of its metrics has the label jobs"},
		"a metric of an absent query": {`absent(down)`, "there is no metric down"},
	} {
		got := strings.Join(errorsIn(t, Query{name, c.expr}, metrics), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
