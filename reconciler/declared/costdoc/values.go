package costdoc

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/provision/cost"
)

const (
	// longestMonth is the hours of one with 31 days.
	longestMonth = 744
	mostUSD      = 1e9
	longestTitle = 60
)

var (
	region       = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)
	instanceType = regexp.MustCompile(`^[a-z][a-z0-9-]{0,29}\.[a-z0-9-]{1,29}$`)
	// decimal is a figure as people write it: neither a sign, nor an exponent, nor
	// hexadecimal digits.
	decimal = regexp.MustCompile(`^[0-9]{1,12}(?:\.([0-9]{1,6}))?$`)
	span    = regexp.MustCompile(`^\s*([0-9.]+)\s*[-–]\s*([0-9.]+)\s*$`)
)

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// truncated is text of the file as it may be repeated in a problem.
func truncated(s string) string {
	if len(s) > longestTitle {
		s = strings.ToValidUTF8(s[:longestTitle], "") + "…"
	}
	return s
}

// scalar is a value's text; anything else is a problem.
func (r *reader) scalar(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.problem(n, "%s must be a single value", what)
		return "", false
	}
	return n.Value, true
}

func (r *reader) matching(n *yaml.Node, what string, form *regexp.Regexp, example string) string {
	text, ok := r.scalar(n, what)
	if ok && !form.MatchString(text) {
		r.problem(n, "%s %q is none, %s", what, truncated(text), example)
	}
	return text
}

func (r *reader) kind(n *yaml.Node) string {
	return r.matching(n, "instanceType", instanceType, "such as g4dn.xlarge")
}

func (r *reader) capacity(n *yaml.Node) string {
	text, ok := r.scalar(n, "capacityType")
	if ok && text != "spot" && text != "on-demand" {
		r.problem(n, "capacityType %q is neither spot nor on-demand", truncated(text))
	}
	return text
}

// title is a scenario's name, in any script. It is shown in tables of two formats,
// so that what divides their columns or ends their code is refused.
func (r *reader) title(n *yaml.Node) string {
	text, ok := r.scalar(n, "name")
	bad := func(c rune) bool { return !unicode.IsPrint(c) || c == '`' || c == '|' }
	switch {
	case !ok:
	case strings.TrimSpace(text) != text || text == "" || utf8.RuneCountInString(text) > longestTitle:
		r.problem(n, "name must be 1 to %d characters without blanks at its ends", longestTitle)
	case strings.ContainsFunc(text, bad) || !utf8.ValidString(text):
		r.problem(n, "name %q holds a character that no table can show; use letters, digits and blanks", truncated(text))
	}
	return text
}

// number is more than 0 and at most the given.
func (r *reader) number(n *yaml.Node, what string, most float64) float64 {
	text, ok := r.scalar(n, what)
	if !ok {
		return 0
	}
	v, _, ok := figure(text)
	if !ok || v <= 0 || v > most {
		r.problem(n, "%s %q is not a number above 0 and up to %s", what, truncated(text), strconv.FormatFloat(most, 'f', -1, 64))
		return 0
	}
	return v
}

// figure is what a document states: a number, or two with a dash between.
func (r *reader) figure(n *yaml.Node, what string, most float64) cost.Range {
	text, ok := r.scalar(n, what)
	if !ok {
		return cost.Range{}
	}
	from, to := text, text
	if m := span.FindStringSubmatch(text); m != nil {
		from, to = m[1], m[2]
	}
	low, some, ok := figure(from)
	high, more, okay := figure(to)
	if !ok || !okay || low > high || high > most {
		r.problem(n, "%s %q is neither a number up to %s nor a range of two, such as 10-30", what, truncated(text), strconv.FormatFloat(most, 'f', -1, 64))
		return cost.Range{}
	}
	return cost.Range{Min: low, Max: high, Decimals: max(some, more)}
}

// figure reads a number and counts its decimals.
func figure(text string) (value float64, decimals int, ok bool) {
	m := decimal.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, len(m[1]), err == nil
}
