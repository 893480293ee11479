package monitoring

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Target is the address that a recording's series have as their label instance, which Prometheus gives each.
const Target = "10.0.0.1:8080"

// Interval is the time between two samples of a recording's series.
const Interval = time.Second

// Recording is what was scraped of one process: for each scrape the values of its series.
type Recording struct {
	scrapes int
	values  map[string][]sample
}

// sample is the value of a series in a scrape.
type sample struct {
	scrape int
	value  string
}

// Add adds a scrape in Prometheus' text format.
func (r *Recording) Add(text []byte) error {
	if r.values == nil {
		r.values = map[string][]sample{}
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			return fmt.Errorf("a line without a value: %q", line)
		}
		number, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return fmt.Errorf("series %s: %w", line[:end], err)
		}
		// PromQL's notation of series has no exponent such as 1e+06.
		value := strconv.FormatFloat(number, 'f', -1, 64)
		r.values[line[:end]] = append(r.values[line[:end]], sample{r.scrapes, value})
	}
	r.scrapes++
	return lines.Err()
}

// Write writes the series that a query selects, in the notation of PromQL's tests. Of prices it writes those of
// the types that nodes have, since EC2 offers thousands.
func (r *Recording) Write(out io.Writer, queries []Query) error {
	selected, err := selectors(queries)
	if err != nil {
		return err
	}
	types := r.instanceTypes()
	for _, text := range slices.Sorted(maps.Keys(r.values)) {
		name, rest, _ := strings.Cut(text, "{")
		series := name + `{instance="` + Target + `"}`
		if rest != "" {
			series = name + `{instance="` + Target + `",` + rest
		}
		set, _, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(series + " 1")
		if err != nil {
			return fmt.Errorf("series %s: %w", series, err)
		}
		if !slices.ContainsFunc(selected, func(s *parser.VectorSelector) bool { return labels.Selector(s.LabelMatchers).Matches(set) }) || unused(name, set, types) {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s %s\n", series, r.notation(r.values[text])); err != nil {
			return err
		}
	}
	return nil
}

var instanceType = regexp.MustCompile(`[{,]instance_type="([^"]*)"`)

// instanceTypes are those that nodes have.
func (r *Recording) instanceTypes() map[string]bool {
	types := map[string]bool{}
	for series := range r.values {
		if found := instanceType.FindStringSubmatch(series); found != nil && strings.HasPrefix(series, "karpenter_nodes_allocatable{") {
			types[found[1]] = true
		}
	}
	return types
}

// unused reports whether a series is of the offering of a type that no node has.
func unused(name string, set labels.Labels, types map[string]bool) bool {
	return strings.HasPrefix(name, "karpenter_cloudprovider_instance_type_offering_") && !types[set.Get("instance_type")]
}

// notation are a series' samples: 5x3 is 5 and three more times 5, _x3 three scrapes without it. Where it goes, it is
// stale, as Prometheus marks it.
func (r *Recording) notation(samples []sample) string {
	values := make([]string, r.scrapes)
	for _, s := range samples {
		values[s.scrape] = s.value
	}
	for i := range values {
		switch {
		case values[i] != "":
		case i > 0 && values[i-1] != "_" && values[i-1] != "stale":
			values[i] = "stale"
		default:
			values[i] = "_"
		}
	}
	var out []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && values[i+n] == values[i] {
			n++
		}
		switch {
		case values[i] == "_":
			out = append(out, fmt.Sprintf("_x%d", n))
		case n == 1:
			out = append(out, values[i])
		default:
			out = append(out, fmt.Sprintf("%sx%d", values[i], n-1))
		}
		i += n
	}
	return strings.Join(out, " ")
}

// selectors are all selectors of series that the queries contain.
func selectors(queries []Query) ([]*parser.VectorSelector, error) {
	var out []*parser.VectorSelector
	for _, query := range queries {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query.Expr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query.Place, err)
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, is := node.(*parser.VectorSelector); is {
				out = append(out, s)
			}
			return nil
		})
	}
	return out, nil
}
