package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// condition is one key of one operator; its values are alternatives.
type condition struct {
	key      string // in lower case
	matches  func(pattern, value string) bool
	negated  bool
	quantity quantity
	ifExists bool
	null     bool // the operator is Null
	values   []string
}

// quantity is how many of a key's values must pass.
type quantity int

const (
	single    quantity = iota // the key is meant to have one value
	allValues                 // ForAllValues
	anyValue                  // ForAnyValue
)

func parseConditions(raw any) ([]condition, error) {
	operators, ok := raw.(map[string]any)
	if !ok {
		return nil, errors.New("its Condition is no JSON object")
	}
	var out []condition
	for _, name := range slices.Sorted(maps.Keys(operators)) {
		shape, err := parseOperator(name)
		if err != nil {
			return nil, err
		}
		keys, ok := operators[name].(map[string]any)
		if !ok || len(keys) == 0 {
			return nil, fmt.Errorf("its condition %s names no keys", name)
		}
		found := map[string]bool{}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			c := shape
			c.key = strings.ToLower(key)
			if found[c.key] || !strings.Contains(key, ":") || strings.ContainsAny(key, "*?$") {
				return nil, fmt.Errorf("its condition %s has a key that is no key, or there twice: %q", name, key)
			}
			found[c.key] = true
			if c.values, err = c.readValues(name, keys[key]); err != nil {
				return nil, fmt.Errorf("its condition %s of %s: %w", name, key, err)
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// arnForm is wider than that of resources: a condition may leave the service
// open.
var arnForm = regexp.MustCompile(`^(\*|arn:[^:]+:[^:]+:[^:]*:[^:]*:.+)$`)

// parseOperator takes a name apart: ForAnyValue:StringNotLikeIfExists.
func parseOperator(name string) (condition, error) {
	var c condition
	base := name
	if rest, ok := strings.CutPrefix(base, "ForAllValues:"); ok {
		c.quantity, base = allValues, rest
	} else if rest, ok := strings.CutPrefix(base, "ForAnyValue:"); ok {
		c.quantity, base = anyValue, rest
	}
	if rest, ok := strings.CutSuffix(base, "IfExists"); ok {
		c.ifExists, base = true, rest
	}
	switch base {
	case "StringEquals", "StringNotEquals":
		c.matches = func(pattern, value string) bool { return pattern == value }
	case "StringLike", "StringNotLike":
		c.matches = like
	case "ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike":
		c.matches = arnLike
	case "Bool":
		c.matches = strings.EqualFold
	case "Null":
		c.null = true
		if c.quantity != single || c.ifExists {
			return condition{}, fmt.Errorf("its condition %s is none of IAM's", name)
		}
	default:
		return condition{}, fmt.Errorf("its condition operator %s is not emulated", name)
	}
	c.negated = strings.Contains(base, "Not")
	return c, nil
}

func (c condition) readValues(operator string, raw any) ([]string, error) {
	truth := c.null || strings.Contains(operator, "Bool")
	if b, ok := raw.(bool); ok && truth {
		raw = strconv.FormatBool(b)
	}
	list, err := stringList(raw)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		if truth && v != "true" && v != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", v)
		}
		if strings.Contains(operator, "Arn") && !arnForm.MatchString(v) {
			return nil, fmt.Errorf("%q is no ARN", v)
		}
	}
	return list, nil
}

// isMet reports whether the condition is met by the values of its key; a key
// without values is absent.
func (c condition) isMet(context map[string][]string) bool {
	have := context[c.key]
	switch {
	case c.null:
		return slices.Contains(c.values, strconv.FormatBool(len(have) == 0))
	case len(have) == 0 && c.ifExists:
		return true
	case len(have) == 0:
		return c.quantity == allValues || c.quantity == single && c.negated
	case c.quantity == anyValue || c.quantity == single && !c.negated:
		return slices.ContainsFunc(have, c.passes)
	}
	return !slices.ContainsFunc(have, func(v string) bool { return !c.passes(v) })
}

// passes reports whether one value of the key is as the condition requires it.
func (c condition) passes(value string) bool {
	hit := slices.ContainsFunc(c.values, func(p string) bool { return c.matches(p, value) })
	return hit != c.negated
}
