package substitute

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
)

// read reads one expression.
func (v Values) read(text string) (Expression, error) {
	if v.language == nil {
		return nil, errors.New("no language to read expressions in")
	}
	return v.language(text)
}

// Reveal returns the object with the values of Secrets in the place of their
// placeholders, for sending and for nothing else. An object without placeholders comes back
// as it is, any other as a copy. It refuses a placeholder outside of a Secret's data,
// one that Apply did not make with these values, and an entry of data that does
// not come out as base64. Its errors name variables and no values.
func Reveal(object map[string]any, values Values) (map[string]any, error) {
	if !containsMark(object) {
		return object, nil
	}
	out := object
	var wrong error
	Walk(object, func(path []string, key bool, text string) {
		if wrong != nil || !strings.Contains(text, prefix) {
			return
		}
		if key || !inSecretData(object, path) {
			wrong = state.Failf(state.Stalled, "SecretOutsideSecret", "a value of a Secret was to go into a field of %v: it may only go into data or stringData of a Secret", object["kind"])
			return
		}
		var value string
		if value, wrong = values.reveal(text, path[0] == "data"); wrong == nil {
			out = withEntry(out, path, value)
		}
	})
	if wrong != nil {
		return nil, fmt.Errorf("filling in values of Secrets: %w", wrong)
	}
	return out, nil
}

func containsMark(object map[string]any) bool {
	found := false
	eachText(object, func(text string) {
		found = found || len(text) >= headLen && strings.Contains(text, prefix)
	})
	return found
}

// withEntry is the object with another value in one entry of one of its maps.
func withEntry(out map[string]any, path []string, value string) map[string]any {
	field, entry := path[0], path[1]
	now, _ := out[field].(map[string]any)
	fresh := maps.Clone(now)
	fresh[entry] = value
	out = maps.Clone(out)
	out[field] = fresh
	return out
}

// reveal fills in one entry of a Secret.
func (v Values) reveal(text string, encoded bool) (string, error) {
	var names []string
	out, err := replacePlaceholders(text, func(m placeholder) (string, error) {
		e, err := v.read(m.expression)
		if err != nil {
			return "", state.Failf(state.Stalled, "UnknownPlaceholder", "a text has the form of a placeholder for a Secret's value and is none; remove it from the repository")
		}
		variables := e.Variables()
		secrets := v.secrets(variables)
		if len(secrets) == 0 || v.digestOf(m.expression, variables) != m.digest {
			return "", state.Failf(state.Retry, "VariableChanged", "the placeholder for %s was not made with the values at hand: they have changed since, or it was copied into the repository", label(m.expression))
		}
		for _, name := range secrets {
			if one, _ := v.get(name); one.sealed {
				return "", fmt.Errorf("the value of ${%s} is not known in this process", name)
			}
		}
		names = append(names, secrets...)
		return v.evaluate(m.expression, e)
	})
	if err != nil {
		return "", err
	}
	if _, err := base64.StdEncoding.DecodeString(out); encoded && err != nil {
		slices.Sort(names)
		return "", state.Failf(state.Stalled, "InvalidSecret", "an entry of data is not base64 once ${%s} is filled in; put it into stringData, which takes text",
			strings.Join(slices.Compact(names), "}, ${"))
	}
	return out, nil
}

func (v Values) evaluate(text string, e Expression) (string, error) {
	size, steps := e.Cost(v.length)
	if size > maxValue || steps > maxEffort {
		return "", state.Failf(state.Stalled, "LimitExceeded", "%s comes to too much text or work; use a shorter value", label(text))
	}
	out, err := e.Evaluate(func(name string) (string, bool) {
		one, _ := v.get(name)
		return one.value(), true
	})
	if err != nil {
		return "", state.Failf(state.Stalled, "InvalidVariable", "%s cannot be evaluated with the value that it has now", label(text))
	}
	return out, nil
}

// Mask returns the object with text for a reader in the place of placeholders: "(secret
// ${TOKEN})". An object without placeholders comes back as it is.
func Mask(object map[string]any) map[string]any {
	if !containsMark(object) {
		return object
	}
	out, _ := masked(object).(map[string]any)
	return out
}

func masked(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[MaskText(k)] = masked(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = masked(e)
		}
		return out
	case string:
		return MaskText(v)
	}
	return v
}

// MaskText is Mask for text, such as what an API server responds.
func MaskText(text string) string {
	if !strings.Contains(text, prefix) {
		return text
	}
	out, err := replacePlaceholders(text, func(m placeholder) (string, error) { return label(m.expression), nil })
	if err != nil {
		return ""
	}
	return out
}

// label is a placeholder as it is shown to a reader. A default is not shown: it may stand in a
// Secret.
func label(expression string) string {
	return "(secret ${" + nameOf(strings.TrimPrefix(strings.TrimPrefix(expression, "${"), "#")) + "})"
}
