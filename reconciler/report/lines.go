package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

const (
	// width is the length in characters from which a line is shortened.
	width = 200
	// valueWidth is the same for one of two values on one line.
	valueWidth = 90
	// lineLimit is the length of what a person must be able to read to its end.
	lineLimit = 5 * width
	// defaultLines is how many lines are shown of one object.
	defaultLines = 40
)

// Options shape what is printed. The zero value is ready to use.
type Options struct {
	// Color asks for ANSI colours in text. Whether the reader is a terminal is
	// for the caller to know.
	Color bool
	// Lines is how many lines are shown of one object, 40 when zero; all when
	// negative. Of the consequences it bounds each list that Markdown folds; of
	// those that everybody reads the first 8 entries are shown, or fewer where
	// Lines sets it. On a terminal nothing folds: 8 of every list when zero. How
	// many more there are is always said.
	Lines int
	// HoursADay is the use for which a month's cost is reported, 24 when zero.
	HoursADay float64
	// Limit is the length of a Markdown document in bytes, 65,536 when zero:
	// what the strictest forge takes for a comment.
	Limit int
}

// symbol stands for what becomes of the thing. What is only compared has one of
// its own: nothing becomes of it.
func (c Change) symbol() string {
	switch {
	case c.Compared:
		return "≠"
	case c.Action == "create":
		return "+"
	case c.Action == "delete":
		return "-"
	}
	return "~"
}

// line is one line of an object's part: a symbol and harmless text.
type line struct{ symbol, text string }

// body lists what there is to read about a change, below its name.
func (o Options) body(c Change) []line {
	var out []line
	switch {
	case c.Wanted == nil:
	case c.Compared && o.Lines <= fewLines && o.Lines >= 0:
		// Nobody is asked to review what is not made.
		out = []line{{" ", outline(c.Wanted)}}
	default:
		out = creation(c.Wanted)
	}
	for _, f := range c.Fields {
		out = append(out, fieldLines(f)...)
	}
	if c.Action == "update" && len(c.Fields) == 0 {
		out = append(out, line{" ", "(it differs in what is not shown)"})
	}
	limit := o.Lines
	if limit == 0 {
		limit = defaultLines
	}
	if limit > 0 && len(out) > limit {
		left := len(out) - limit
		out = append(out[:limit:limit], line{" ", fmt.Sprintf("… %s", count(left, "more line"))})
	}
	// What a person must know is never cut off. The reason of a hold is shown
	// once for all changes that it concerns; how to change what is only
	// compared, with each.
	for _, n := range c.Notes {
		out = append(out, line{" ", sanitize.Escape(n)})
	}
	if c.Compared {
		out = append(out, line{" ", c.onlyCompared()})
	}
	if c.Error != "" {
		out = append(out, line{" ", c.Status + ": " + cut(sanitize.Escape(c.Error), 5*width)})
	}
	return out
}

// onlyCompared is how what is only compared differs, and why nothing is done.
func (c Change) onlyCompared() string {
	how := map[string]string{"create": "missing", "update": "differs", "delete": "not declared"}[c.Action] + ", only compared"
	if c.Hold == "" {
		return how
	}
	return how + ": " + sanitize.Escape(c.Hold)
}

// creation is a whole object as YAML.
func creation(object map[string]any) []line {
	raw, err := yaml.Marshal(object)
	if err != nil {
		return []line{{"+", cut(sanitize.Escape(text(object)), width)}}
	}
	var out []line
	for l := range strings.SplitSeq(strings.TrimRight(string(raw), "\n"), "\n") {
		out = append(out, line{"+", cut(sanitize.Escape(l), width)})
	}
	return out
}

// outline is an object in one line: short values in full, of all else how much
// there is.
func outline(object map[string]any) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(object)) {
		name := sanitize.Escape(k)
		switch v := object[k].(type) {
		case map[string]any:
			if len(v) == 0 {
				continue
			}
			name += fmt.Sprintf(" (%d)", len(v))
		case []any:
			if len(v) == 0 {
				continue
			}
			name += fmt.Sprintf(" (%d)", len(v))
		default:
			if s := text(v); utf8.RuneCountInString(s) <= outlineWidth {
				name += ": " + s
			} else {
				name += fmt.Sprintf(" (%d characters)", utf8.RuneCountInString(fmt.Sprint(v)))
			}
		}
		out = append(out, name)
	}
	return cut("declared: "+strings.Join(out, ", "), width)
}

// outlineWidth is how long a value in an outline may be.
const outlineWidth = 50

// listLines shows which words of a list come and go. It reports false where that
// is not the difference: other elements than words, or another order.
func listLines(path string, before, after any) ([]line, bool) {
	b, okB := stringList(before)
	a, okA := stringList(after)
	if !okA || !okB {
		return nil, false
	}
	gone, come := without(b, a), without(a, b)
	if len(gone)+len(come) == 0 {
		return nil, false
	}
	out := []line{{"~", path + ":"}}
	if same := len(b) - len(gone); same > 0 {
		out = append(out, line{" ", "  … " + count(same, "equal entry")})
	}
	for _, s := range gone {
		out = append(out, line{"-", "  " + cut(sanitize.Escape(s), width)})
	}
	for _, s := range come {
		out = append(out, line{"+", "  " + cut(sanitize.Escape(s), width)})
	}
	return out, true
}

// stringList are the elements of a list that holds nothing but strings.
func stringList(value any) ([]string, bool) {
	list, ok := value.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, isWord := e.(string)
		ok = ok && isWord
		out = append(out, s)
	}
	return out, ok
}

// without is what is left of list when each of others has taken one away.
func without(list, others []string) []string {
	taken := map[string]int{}
	for _, s := range others {
		taken[s]++
	}
	var out []string
	for _, s := range list {
		if taken[s]--; taken[s] < 0 {
			out = append(out, s)
		}
	}
	return out
}

func fieldLines(f Field) []line {
	path := cut(sanitize.Escape(f.Path), width)
	if f.Masked != "" {
		s := map[string]string{"added": "+", "removed": "-"}[f.Masked]
		if s == "" {
			s = "~"
		}
		return []line{{s, fmt.Sprintf("%s: (masked, %s)", path, f.Masked)}}
	}
	switch {
	case f.Before == nil && f.After == nil:
		return []line{{"~", path + ": an explicit null is added or removed"}}
	case f.Before == nil:
		return []line{{"+", path + ": " + cut(text(f.After), width)}}
	case f.After == nil:
		return []line{{"-", path + ": " + cut(text(f.Before), width)}}
	}
	if changed, ok := listLines(path, f.Before, f.After); ok {
		return changed
	}
	before, okB := f.Before.(string)
	after, okA := f.After.(string)
	if okB && okA && strings.Contains(before+after, "\n") {
		return append([]line{{"~", path + ":"}}, lineDiff(strings.Split(before, "\n"), strings.Split(after, "\n"))...)
	}
	b, a := apart(text(f.Before), text(f.After))
	return []line{{"~", fmt.Sprintf("%s: %s → %s", path, b, a)}}
}

// apart shortens two long values so that where they first differ is in sight.
func apart(before, after string) (string, string) {
	if utf8.RuneCountInString(before) <= valueWidth && utf8.RuneCountInString(after) <= valueWidth {
		return before, after
	}
	b, a := []rune(before), []rune(after)
	same := 0
	for same < len(b) && same < len(a) && b[same] == a[same] {
		same++
	}
	const context = 20
	if skip := same - context; skip > context {
		before, after = "…"+string(b[skip:]), "…"+string(a[skip:])
	}
	return cut(before, valueWidth), cut(after, valueWidth)
}

// diffLines bounds what is compared line by line: the work grows with the
// product of both sides.
const diffLines = 300

// lineDiff shows the lines that go and come, with one line of context.
func lineDiff(before, after []string) []line {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	b, a := before[head:len(before)-tail], after[head:len(after)-tail]
	show := func(symbol, s string) line { return line{symbol, "  " + cut(sanitize.Escape(s), width)} }
	var out []line
	if head > 1 {
		out = append(out, line{" ", "  … " + count(head-1, "equal line")})
	}
	if head > 0 {
		out = append(out, show(" ", before[head-1]))
	}
	if len(b) > diffLines || len(a) > diffLines {
		out = append(out, line{"~", fmt.Sprintf("  %s → %s", count(len(b), "line"), count(len(a), "line"))})
	} else {
		out = append(out, script(b, a, show)...)
	}
	if tail > 0 {
		out = append(out, show(" ", before[len(before)-tail]))
	}
	if tail > 1 {
		out = append(out, line{" ", "  … " + count(tail-1, "equal line")})
	}
	return out
}

// script is the shortest list of removed and added lines, by the longest
// common subsequence of both sides.
func script(b, a []string, show func(symbol, s string) line) []line {
	length := make([][]int, len(b)+1)
	for i := range length {
		length[i] = make([]int, len(a)+1)
	}
	for i := range slices.Backward(b) {
		for j := range slices.Backward(a) {
			if b[i] == a[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []line
	i, j := 0, 0
	for i < len(b) || j < len(a) {
		switch {
		case i < len(b) && j < len(a) && b[i] == a[j]:
			out = append(out, show(" ", b[i]))
			i, j = i+1, j+1
		case i < len(b) && (j == len(a) || length[i+1][j] >= length[i][j+1]):
			out = append(out, show("-", b[i]))
			i++
		default:
			out = append(out, show("+", a[j]))
			j++
		}
	}
	return out
}

// count writes a number and its noun, in the plural where needed.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
