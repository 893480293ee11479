package randomwalk

import (
	"math"
	"slices"
	"time"
)

// Trend is how a size develops over a walk.
type Trend struct {
	Name string `json:"name"`
	// First and Last are the medians of the first and the last quarter of the samples, Most the
	// largest.
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	Most  float64 `json:"most"`
	// PerHour is the slope of the line that fits best, and Error its standard error.
	PerHour float64 `json:"perHour"`
	Error   float64 `json:"error"`
}

// size is one of a sample.
type size struct {
	name  string
	bytes bool
	of    func(Sample) float64
}

func sizes() []size {
	return []size{
		{"resident memory", true, func(s Sample) float64 { return float64(s.Resident) }},
		{"peak of resident memory", true, func(s Sample) float64 { return float64(s.Peak) }},
		{"heap", true, func(s Sample) float64 { return float64(s.Heap) }},
		{"heap goal", true, func(s Sample) float64 { return float64(s.HeapGoal) }},
		{"goroutines", false, func(s Sample) float64 { return float64(s.Goroutines) }},
		{"file descriptors", false, func(s Sample) float64 { return float64(s.Descriptors) }},
		{"disk", true, func(s Sample) float64 { return float64(s.Disk) }},
	}
}

// Trends are those of the samples that were taken after the warm-up.
func Trends(samples []Sample, warmUp time.Duration) []Trend {
	samples = slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.At < warmUp })
	if len(samples) < 3 {
		return nil
	}
	var out []Trend
	for _, size := range sizes() {
		hours, values := make([]float64, len(samples)), make([]float64, len(samples))
		for i, s := range samples {
			hours[i], values[i] = s.At.Hours(), size.of(s)
		}
		quarter := (len(values) + 3) / 4
		t := Trend{Name: size.name, First: median(values[:quarter]), Last: median(values[len(values)-quarter:]), Most: slices.Max(values)}
		t.PerHour, t.Error = slope(hours, values)
		out = append(out, t)
	}
	return out
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// slope is the least-squares slope of y over x with its standard error, for three points or
// more.
func slope(x, y []float64) (slope, standardError float64) {
	meanX, meanY := mean(x), mean(y)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	if xx == 0 {
		return 0, 0
	}
	slope = xy / xx
	var residuals float64
	for i := range x {
		r := y[i] - meanY - slope*(x[i]-meanX)
		residuals += r * r
	}
	return slope, math.Sqrt(residuals / float64(len(x)-2) / xx)
}

func mean(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total / float64(len(values))
}
