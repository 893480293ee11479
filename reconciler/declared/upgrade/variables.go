package upgrade

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manifests may hold variables, ${NAME}, which are filled in after files were
// upgraded, and before objects are. What hangs on a value that nobody knows yet
// is carried over where it stays exact, and is for a person otherwise.

// variable reports whether a text holds a variable, so that it is not the value.
func variable(n *yaml.Node) bool { return strings.Contains(text(n), "${") }

// filledNumber is a number that is written with variables: of nothing but digits
// and variables, whose defaults are digits.
var filledNumber = regexp.MustCompile(`^([0-9]|\$\{[A-Za-z_][A-Za-z0-9_]*(:?[=-][0-9]+)?\})+$`)

// unknown reports whether a decision hangs on a variable. In a draft it is made
// somehow, because nobody goes by it.
func (r *run) unknown(n *yaml.Node) bool { return variable(n) && !r.opts.Draft }

// remedy is what to do about a value of the wrong form.
func remedy(n *yaml.Node) string {
	if variable(n) {
		return "; " + text(n) + " is filled in too late for an upgrade: write its value, upgrade, and put the variable back"
	}
	return "; correct it"
}

// checkSeconds blocks a time that is no number of seconds.
func (r *run) checkSeconds(o *object, field, now string) {
	switch n := get(o.node, field); {
	case absent(n), numbered.MatchString(text(n)), filledNumber.MatchString(text(n)):
	case r.unknown(n):
		r.block(o, field, "%s depends on %s, whose value an upgrade does not know; write the number, upgrade, and put the variable back into %s, with an s behind it", field, text(n), now)
	case !variable(n):
		r.block(o, field, "%s must be a number of seconds; correct it", field)
	}
}

// checkDecided blocks a Provisioner in which a variable decides what else is written.
func (r *run) checkDecided(o *object) {
	if n := get(o.node, "spec.consolidation.enabled"); r.unknown(n) {
		r.block(o, "spec.consolidation.enabled", "spec.consolidation.enabled depends on %s, and which policy v1 wants depends on that; write true or false, upgrade, and put variables into spec.disruption.consolidationPolicy and consolidateAfter", text(n))
	}
	requirements := get(o.node, "spec.requirements")
	if o.blocked || absent(requirements) {
		return
	}
	for _, q := range requirements.Content {
		if key := get(q, "key"); r.unknown(key) {
			r.block(o, "spec.requirements", "the key of a requirement is %s, and what v1alpha5 added by itself depends on that; write the key, upgrade, and put the variable back", text(key))
			return
		}
	}
}

// listed asks whether a variable among the values of a selector is a list, which v1
// takes for one value. The tag of discovery holds a cluster's name, which has no comma.
func (r *run) listed(o *object, line int, selector string, values *yaml.Node) {
	if values == nil || values.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(values.Content); i += 2 {
		if key, n := values.Content[i].Value, values.Content[i+1]; key != "karpenter.sh/discovery" && r.unknown(n) {
			r.ask(o, line, "%s: %s is %s: where its value is a list with commas, write a term for each of them, which v1 wants", selector, key, text(n))
		}
	}
}

// parts are the elements of a list with commas. A comma within a variable's
// expression, such as that of a default, divides nothing.
func parts(n *yaml.Node) []string {
	var out []string
	add := func(p string) {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	s, from, depth := text(n), 0, 0
	for i := range len(s) {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			depth++
		case s[i] == '}' && depth > 0:
			depth--
		case s[i] == ',' && depth == 0:
			add(s[from:i])
			from = i + 1
		}
	}
	add(s[from:])
	return out
}
