package monitoring

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

const root = "../.."

// series are the samples that the engine reads. They begin at start.
type series []promql.Series

var start = time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)

// parseSeries reads series in the notation of PromQL's tests, one a line, with an interval between samples.
func parseSeries(t *testing.T, text string, interval time.Duration) (all series) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		set, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		one := promql.Series{Metric: set}
		for i, v := range values {
			if !v.Omitted {
				one.Floats = append(one.Floats, promql.FPoint{T: start.Add(time.Duration(i) * interval).UnixMilli(), F: v.Value})
			}
		}
		all = append(all, one)
	}
	return all
}

// end is when the last sample is.
func (s series) end() time.Time {
	last := start
	for _, one := range s {
		if n := len(one.Floats); n > 0 && time.UnixMilli(one.Floats[n-1].T).After(last) {
			last = time.UnixMilli(one.Floats[n-1].T)
		}
	}
	return last
}

// Querier implements storage.Queryable.
func (s series) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &selected{at: -1}
		for _, one := range s {
			if labels.Selector(matchers).Matches(one.Metric) {
				set.series = append(set.series, one)
			}
		}
		return set
	}}, nil
}

// selected are the series that a selector matches.
type selected struct {
	series []promql.Series
	at     int
}

func (s *selected) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *selected) At() storage.Series                { return promql.NewStorageSeries(s.series[s.at]) }
func (s *selected) Err() error                        { return nil }
func (s *selected) Warnings() annotations.Annotations { return nil }

// evaluate evaluates an expression from start to end, which gives each series with its values.
func (s series) evaluate(t *testing.T, expr string, step time.Duration) promql.Matrix {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: parser.NewParser(parser.Options{}),
	})
	query, err := engine.NewRangeQuery(context.Background(), s, nil, expr, start, s.end(), step)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	out := make(promql.Matrix, 0, len(matrix))
	for _, one := range matrix {
		out = append(out, promql.Series{Metric: one.Metric.Copy(), Floats: append([]promql.FPoint(nil), one.Floats...)})
	}
	return out
}

func TestSamplesThatAreStaleAreNotThere(t *testing.T) {
	s := parseSeries(t, "up 1 stale _x3 1", time.Minute)
	if n := len(s[0].Floats); n != 3 || !value.IsStaleNaN(s[0].Floats[1].F) {
		t.Errorf("%v", s)
	}
	if got := s.evaluate(t, "up", time.Minute); len(got) != 1 || len(got[0].Floats) != 2 {
		t.Errorf("%v", got)
	}
}
