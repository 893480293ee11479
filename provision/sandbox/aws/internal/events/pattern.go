package events

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// pattern is an event pattern: patterns of an object's fields, or what a field
// may be. Of EventBridge's matchers it has prefix, anything-but (of plain
// values) and exists, and refuses the others.
type pattern struct {
	fields map[string]pattern
	anyOf  []matcher
}

// matcher reports whether a field's value is right; there is false for a field
// that the event does not have.
type matcher func(value any, there bool) bool

// parsePattern reads an event pattern as PutRule does.
func parsePattern(text string) (pattern, error) {
	var raw any
	if err := api.DecodeStrict([]byte(text), &raw); err != nil {
		return pattern{}, api.Refuse("InvalidEventPatternException", "Event pattern is not valid. Reason: %s", err)
	}
	object, ok := raw.(map[string]any)
	if !ok || len(object) == 0 {
		return pattern{}, api.Refuse("InvalidEventPatternException", "Event pattern is not valid. Reason: Filter is not an object, or empty")
	}
	p, err := readPattern(object)
	if err != nil {
		return pattern{}, api.Refuse("InvalidEventPatternException", "Event pattern is not valid. Reason: %s", err)
	}
	return p, nil
}

func readPattern(object map[string]any) (pattern, error) {
	p := pattern{fields: map[string]pattern{}}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var next pattern
		var err error
		switch v := object[name].(type) {
		case map[string]any:
			if len(v) == 0 {
				return p, fmt.Errorf("%q is an empty object", name)
			}
			next, err = readPattern(v)
		case []any:
			next.anyOf, err = readMatchers(v)
		default:
			err = errors.New("it must be an object or an array")
		}
		if err == nil && strings.HasPrefix(name, "$") {
			err = errors.New("such operators are not emulated here")
		}
		if err != nil {
			return p, fmt.Errorf("%q: %w", name, err)
		}
		p.fields[name] = next
	}
	return p, nil
}

func readMatchers(values []any) ([]matcher, error) {
	if len(values) == 0 {
		return nil, errors.New("empty arrays are not allowed")
	}
	var out []matcher
	for _, v := range values {
		m, err := readMatcher(v)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func readMatcher(v any) (matcher, error) {
	switch want := v.(type) {
	case []any:
		return nil, errors.New("nested arrays are not allowed")
	case map[string]any:
		if len(want) != 1 {
			return nil, errors.New("a match expression has exactly one key")
		}
		for kind, operand := range want {
			return readExpression(kind, operand)
		}
	}
	return func(value any, there bool) bool { return there && value == v }, nil
}

func readExpression(kind string, operand any) (matcher, error) {
	switch kind {
	case "prefix":
		want, ok := operand.(string)
		if !ok {
			return nil, errors.New("prefix needs a string")
		}
		return func(value any, there bool) bool {
			s, text := value.(string)
			return there && text && strings.HasPrefix(s, want)
		}, nil
	case "exists":
		want, ok := operand.(bool)
		if !ok {
			return nil, errors.New("exists needs true or false")
		}
		return func(value any, there bool) bool {
			_, inner := value.(map[string]any) // exists is of leaves: what has fields is none
			return (there && !inner) == want
		}, nil
	case "anything-but":
		list, ok := operand.([]any)
		if !ok {
			list = []any{operand}
		}
		for _, o := range list {
			switch o.(type) {
			case string, float64:
			default:
				return nil, errors.New("anything-but is emulated for strings and numbers only")
			}
		}
		return func(value any, there bool) bool { return there && !slices.Contains(list, value) }, nil
	}
	return nil, fmt.Errorf("unrecognized match type %s: it is not emulated here", kind)
}

// matches reports whether the event, or the part of it that the pattern is for,
// is right. Of a field with several values one must be, and of several objects one as a whole.
func (p pattern) matches(value any, there bool) bool {
	if p.fields != nil {
		if elements, several := value.([]any); several {
			return slices.ContainsFunc(elements, func(e any) bool { return p.matches(e, there) })
		}
		object, _ := value.(map[string]any)
		for name, next := range p.fields {
			if v, has := object[name]; !next.matches(v, has) {
				return false
			}
		}
		return true
	}
	values, several := value.([]any)
	if !several {
		values = []any{value}
	}
	return slices.ContainsFunc(p.anyOf, func(m matcher) bool {
		return slices.ContainsFunc(values, func(v any) bool { return m(v, there) })
	})
}
