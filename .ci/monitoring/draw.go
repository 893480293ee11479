package monitoring

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"
)

// Line is a series of a panel, by its legend.
type Line struct {
	Legend string
	// Labels are the columns of a table.
	Labels map[string]string
	// Points have the time in seconds since the beginning of the recording.
	Points []Point
}

// Point is a value at a time.
type Point struct{ Seconds, Value float64 }

// The size of a cell of Grafana's grid of 24 columns, and of what is between panels, in pixels.
const (
	cellWidth  = 48
	cellHeight = 32
	gap        = 8
	mebibyte   = 1 << 20
)

// colors are those of the lines, in order, then again.
var colors = []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#e0576a", "#37b5b6", "#8f6b3b"}

const style = `<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:12px;fill:#3b4148}
.h{font-size:18px;font-weight:600}.r{font-size:14px;font-weight:600}.t{font-size:12px;font-weight:600}.v{font-size:28px;font-weight:600}.a{font-size:11px;fill:#6b7280}
.g{fill:#f4f5f5}.p{fill:#fff;stroke:#dcdde0}.x{stroke:#e4e6e9;fill:none}.l{fill:none;stroke-width:1.5}
@media (prefers-color-scheme:dark){text{fill:#d5d8de}.a{fill:#9aa1ac}.g{fill:#111217}.p{fill:#181b1f;stroke:#2a2d33}.x{stroke:#2a2d33}}
</style>
`

// Draw draws a dashboard as an SVG image. The lines are those of each panel, by its ID.
func Draw(board Dashboard, lines map[int][]Line) string {
	height := 0
	for _, p := range board.Panels {
		height = max(height, p.GridPos.Y+p.GridPos.H)
	}
	end := 1.0
	for _, of := range lines {
		for _, line := range of {
			end = max(end, line.Points[len(line.Points)-1].Seconds)
		}
	}
	const top = 40
	w, h := 24*cellWidth+gap, top+height*cellHeight+gap
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n%s", w, h, html.EscapeString(board.Title), style)
	fmt.Fprintf(&b, "<rect class=\"g\" width=\"%d\" height=\"%d\"/>\n<text class=\"h\" x=\"%d\" y=\"26\">%s</text>\n", w, h, gap+2, html.EscapeString(board.Title))
	for _, p := range board.Panels {
		d := drawing{&b, p, float64(gap + p.GridPos.X*cellWidth), float64(top + p.GridPos.Y*cellHeight), float64(p.GridPos.W*cellWidth - gap), float64(p.GridPos.H*cellHeight - gap), end}
		if p.Type == "row" {
			d.text("r", 2, 18, "start", "▾ "+p.Title)
			continue
		}
		fmt.Fprintf(&b, "<rect class=\"p\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"3\"/>\n", d.x, d.y, d.w, d.h)
		d.text("t", 10, 18, "start", cut(p.Title, int(d.w/7.4)))
		of := lines[p.ID]
		if p.hidesZeros() {
			of = slices.DeleteFunc(slices.Clone(of), zero)
		}
		switch {
		case len(of) == 0:
			d.text("a", d.w/2, d.h/2+8, "middle", "No data")
		case p.Type == "stat":
			d.text("v", d.w/2, d.h/2+20, "middle", format(p.unit(), last(of[0])))
		case p.Type == "table":
			d.table(of)
		default:
			d.chart(of)
		}
	}
	return b.String() + "</svg>\n"
}

// zero reports whether a line is 0 all the time.
func zero(line Line) bool {
	return !slices.ContainsFunc(line.Points, func(p Point) bool { return p.Value != 0 })
}

// drawing is where a panel is drawn.
type drawing struct {
	b          *strings.Builder
	panel      Panel
	x, y, w, h float64
	// end is when all of the dashboard's charts end, in seconds.
	end float64
}

// hidesZeros reports whether the panel hides series that are 0 all the time.
func (p Panel) hidesZeros() bool {
	for _, override := range p.FieldConfig.Overrides {
		if override.Matcher.ID == "byValue" && override.Matcher.Options.Reducer == "allIsZero" && override.Properties[0].ID == "custom.hideFrom" {
			return true
		}
	}
	return false
}

func (p Panel) unit() string { return p.FieldConfig.Defaults.Unit }

func (d drawing) text(class string, x, y float64, anchor, text string) {
	fmt.Fprintf(d.b, "<text class=%q x=\"%.4g\" y=\"%.4g\" text-anchor=%q>%s</text>\n", class, d.x+x, d.y+y, anchor, html.EscapeString(text))
}

// table has a column for each label, and the value.
func (d drawing) table(lines []Line) {
	names := slices.Sorted(maps.Keys(lines[0].Labels))
	width := (d.w - 20) / float64(len(names)+1)
	row := func(class string, y float64, cells []string) {
		for i, cell := range cells {
			d.text(class, 10+float64(i)*width, y, "start", cut(cell, int(width/7)))
		}
	}
	row("a", 42, append(slices.Clone(names), "value"))
	for i, line := range lines {
		y := 64 + 20*float64(i)
		if y > d.h-8 {
			return
		}
		fmt.Fprintf(d.b, "<path class=\"x\" d=\"M%.5g %.5gh%.5g\"/>\n", d.x+10, d.y+y-14, d.w-20)
		var cells []string
		for _, name := range names {
			cells = append(cells, line.Labels[name])
		}
		row("", y, append(cells, format(d.panel.unit(), last(line))))
	}
}

// chart draws lines over time, on top of one another where the panel stacks them.
func (d drawing) chart(lines []Line) {
	const left, right, above, legend = 58, 12, 30, 40
	stacked := d.panel.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	lines = clone(lines)
	if stacked {
		stack(lines)
	}
	high := 0.0
	for _, line := range lines {
		for _, p := range line.Points {
			high = max(high, p.Value)
		}
	}
	step := niceStep(high)
	if d.panel.unit() == "bytes" {
		step = niceStep(high/mebibyte) * mebibyte
	}
	high = max(step, math.Ceil(high/step)*step)
	w, h := d.w-left-right, d.h-above-legend
	px := func(seconds float64) float64 { return d.x + left + seconds/d.end*w }
	py := func(value float64) float64 { return d.y + above + h - value/high*h }
	for v := 0.0; v <= high*1.001; v += step {
		fmt.Fprintf(d.b, "<path class=\"x\" d=\"M%.5g %.5gh%.5g\"/>\n", d.x+left, py(v), w)
		d.text("a", left-6, py(v)-d.y+4, "end", format(d.panel.unit(), v))
	}
	for s := 0.0; s <= d.end; s += 10 {
		d.text("a", px(s)-d.x, above+h+15, "middle", fmt.Sprintf("%.0f s", s))
	}
	x := 10.0
	for i := len(lines) - 1; i >= 0; i-- {
		color := colors[i%len(colors)]
		for _, part := range unbroken(lines[i].Points) {
			path := polyline(part, px, py)
			if opacity := d.panel.FieldConfig.Defaults.Custom.FillOpacity; len(part) > 1 {
				fmt.Fprintf(d.b, "<path fill=%q fill-opacity=\"%g\" d=\"%sV%.5gH%.5gZ\"/>\n", color, opacity/100, path, py(0), px(part[0].Seconds))
			}
			fmt.Fprintf(d.b, "<path class=\"l\" stroke=%q d=%q/>\n", color, path)
		}
	}
	for i, line := range lines {
		text := cut(line.Legend, int((d.w-x-20)/6.2))
		if text == "" {
			break
		}
		fmt.Fprintf(d.b, "<rect x=\"%.5g\" y=\"%.5g\" width=\"12\" height=\"3\" fill=%q/>\n", d.x+x, d.y+d.h-13, colors[i%len(colors)])
		d.text("a", x+16, d.h-8, "start", text)
		x += 32 + 6.2*float64(len([]rune(text)))
	}
}

func polyline(points []Point, px, py func(float64) float64) string {
	var b strings.Builder
	for i, p := range points {
		fmt.Fprintf(&b, "%c%.5g %.5g", "ML"[min(i, 1)], px(p.Seconds), py(p.Value))
	}
	if len(points) == 1 {
		b.WriteString("h2")
	}
	return b.String()
}

// unbroken are the parts of a line between which samples are missing.
func unbroken(points []Point) (parts [][]Point) {
	for i, p := range points {
		if i == 0 || p.Seconds-points[i-1].Seconds > Interval.Seconds()*1.5 {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], p)
	}
	return parts
}

func clone(lines []Line) []Line {
	out := slices.Clone(lines)
	for i := range out {
		out[i].Points = slices.Clone(out[i].Points)
	}
	return out
}

// stack adds to each line the values of those before it at the same time.
func stack(lines []Line) {
	below := map[float64]float64{}
	for _, line := range lines {
		for i, p := range line.Points {
			below[p.Seconds] += p.Value
			line.Points[i].Value = below[p.Seconds]
		}
	}
}

// niceStep is one of 1, 2 and 5 and their multiples by powers of ten, of which a few make the highest value.
func niceStep(high float64) float64 {
	if high <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(high/4)))
	for _, factor := range []float64{1, 2, 5} {
		if high/4 <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

func last(line Line) float64 { return line.Points[len(line.Points)-1].Value }

// format writes a value with its unit, as Grafana abbreviates them.
func format(unit string, v float64) string {
	number := func(v float64) string { return fmt.Sprintf("%.3g", v) }
	switch unit {
	case "currencyUSD":
		return "$" + number(v)
	case "percentunit":
		return number(v*100) + "%"
	case "s":
		if v < 1 && v > 0 {
			return number(v*1000) + " ms"
		}
		return number(v) + " s"
	case "bytes":
		return fmt.Sprintf("%.0f MiB", v/mebibyte)
	case "reqps":
		return number(v) + " req/s"
	}
	return number(v)
}

// cut shortens a text to so many characters.
func cut(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	if n < 4 {
		return ""
	}
	return string(runes[:n-1]) + "…"
}

// SortLines sorts lines by their legends, then by their labels.
func SortLines(lines []Line) {
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Legend, b.Legend), cmp.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)))
	})
}
