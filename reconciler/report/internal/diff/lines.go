// Package diff writes the content of an object, and how two differ, line by line.
//
// It refuses to show more than a person reads: long values are shortened where they are the
// same. Secrets are masked before they come here. Start reading at Field.
package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/mask"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// valueWidth is the length in characters from which one of two values on one line is
// shortened.
const valueWidth = 90

// Line is one line of an object, escaped for a terminal.
type Line struct {
	// Symbol is "+", "-", "~" or " ".
	Symbol string
	Text   string
}

// Created is a whole object as YAML.
func Created(object map[string]any) []Line {
	raw, err := yaml.Marshal(object)
	if err != nil {
		return []Line{{"+", markup.Cut(sanitize.Escape(markup.Value(object)), markup.Width)}}
	}
	var out []Line
	for l := range strings.SplitSeq(strings.TrimRight(string(raw), "\n"), "\n") {
		out = append(out, Line{"+", markup.Cut(sanitize.Escape(l), markup.Width)})
	}
	return out
}

// Outline is an object in one line: short values in full, of all else how much
// there is.
func Outline(object map[string]any) string {
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
			if s := markup.Value(v); utf8.RuneCountInString(s) <= outlineWidth {
				name += ": " + s
			} else {
				name += fmt.Sprintf(" (%d characters)", utf8.RuneCountInString(fmt.Sprint(v)))
			}
		}
		out = append(out, name)
	}
	return markup.Cut("declared: "+strings.Join(out, ", "), markup.Width)
}

// outlineWidth is how long a value in an outline may be.
const outlineWidth = 50

// listLines shows which words of a list come and go. It reports false where that
// is not the difference: other elements than words, or another order.
func listLines(path string, before, after any) ([]Line, bool) {
	b, okB := stringList(before)
	a, okA := stringList(after)
	if !okA || !okB {
		return nil, false
	}
	gone, come := without(b, a), without(a, b)
	if len(gone)+len(come) == 0 {
		return nil, false
	}
	out := []Line{{"~", path + ":"}}
	if same := len(b) - len(gone); same > 0 {
		out = append(out, Line{" ", "  … " + plural.Count(same, "equal entry")})
	}
	for _, s := range gone {
		out = append(out, Line{"-", "  " + markup.Cut(sanitize.Escape(s), markup.Width)})
	}
	for _, s := range come {
		out = append(out, Line{"+", "  " + markup.Cut(sanitize.Escape(s), markup.Width)})
	}
	return out, true
}

// stringList are the elements of a list that holds nothing but strings.
func stringList(value any) ([]string, bool) {
	list, ok := value.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		s, isString := e.(string)
		ok = ok && isString
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

// Field is how one field differs.
func Field(f mask.Field) []Line {
	path := markup.Cut(sanitize.Escape(f.Path), markup.Width)
	if f.Masked != "" {
		s := map[string]string{"added": "+", "removed": "-"}[f.Masked]
		if s == "" {
			s = "~"
		}
		return []Line{{s, fmt.Sprintf("%s: (masked, %s)", path, f.Masked)}}
	}
	switch {
	case f.Before == nil && f.After == nil:
		return []Line{{"~", path + ": an explicit null is added or removed"}}
	case f.Before == nil:
		return []Line{{"+", path + ": " + markup.Cut(markup.Value(f.After), markup.Width)}}
	case f.After == nil:
		return []Line{{"-", path + ": " + markup.Cut(markup.Value(f.Before), markup.Width)}}
	}
	if changed, ok := listLines(path, f.Before, f.After); ok {
		return changed
	}
	before, okB := f.Before.(string)
	after, okA := f.After.(string)
	if okB && okA && strings.Contains(before+after, "\n") {
		return append([]Line{{"~", path + ":"}}, lineDiff(strings.Split(before, "\n"), strings.Split(after, "\n"))...)
	}
	b, a := apart(markup.Value(f.Before), markup.Value(f.After))
	return []Line{{"~", fmt.Sprintf("%s: %s → %s", path, b, a)}}
}

// apart shortens two long values so that where they first differ is shown.
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
	return markup.Cut(before, valueWidth), markup.Cut(after, valueWidth)
}

// diffLines bounds what is compared line by line: the work grows with the
// product of both sides.
const diffLines = 300

// lineDiff shows the lines that go and come, with one line of context.
func lineDiff(before, after []string) []Line {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	b, a := before[head:len(before)-tail], after[head:len(after)-tail]
	show := func(symbol, s string) Line { return Line{symbol, "  " + markup.Cut(sanitize.Escape(s), markup.Width)} }
	var out []Line
	if head > 1 {
		out = append(out, Line{" ", "  … " + plural.Count(head-1, "equal line")})
	}
	if head > 0 {
		out = append(out, show(" ", before[head-1]))
	}
	if len(b) > diffLines || len(a) > diffLines {
		out = append(out, Line{"~", fmt.Sprintf("  %s → %s", plural.Count(len(b), "line"), plural.Count(len(a), "line"))})
	} else {
		out = append(out, script(b, a, show)...)
	}
	if tail > 0 {
		out = append(out, show(" ", before[len(before)-tail]))
	}
	if tail > 1 {
		out = append(out, Line{" ", "  … " + plural.Count(tail-1, "equal line")})
	}
	return out
}

// script is the shortest list of removed and added lines, by the longest
// common subsequence of both sides.
func script(b, a []string, show func(symbol, s string) Line) []Line {
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
	var out []Line
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
