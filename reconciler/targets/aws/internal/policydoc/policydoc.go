// Package policydoc reads and writes IAM policy documents in a canonical form. They can be
// written in many ways that mean the same: one string or a list of one, a list in any order, a
// URL-encoded text. In the canonical form every such choice is made, so that equal means equal.
// It stays a map, in which a report shows the statement and the condition that somebody changed.
// It has no opinion about what a document allows. Start reading at Parse.
package policydoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// documentLimit is far above IAM's own limit for any document, 10,240 characters.
const documentLimit = 256 << 10

// Parse reads a policy document, URL-encoded as IAM returns it or plain, and
// returns it in its canonical form.
func Parse(text string) (map[string]any, error) {
	if len(text) > documentLimit {
		return nil, fmt.Errorf("reading a policy document: it has %d characters, more than IAM takes", len(text))
	}
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		plain, err := url.PathUnescape(text)
		if err != nil {
			return nil, fmt.Errorf("reading a policy document: it is neither JSON nor URL-encoded JSON")
		}
		text = plain
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("reading a policy document: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading a policy document: more follows after its end")
	}
	return canonical(raw)
}

func canonical(raw map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(raw)+1)
	// A document without a version is of the first one, which has no policy
	// variables: that must not be equal to the second.
	out["Version"] = "2008-10-17"
	for k, v := range raw {
		if k != "Statement" {
			out[k] = canonicalValue(v)
		}
	}
	var statements []any
	switch s := raw["Statement"].(type) {
	case []any:
		statements = s
	case map[string]any:
		statements = []any{s}
	default:
		return nil, errors.New("reading a policy document: its Statement is neither a statement nor a list of them")
	}
	type line struct{ sid, text string }
	sorted := make([]map[string]any, 0, len(statements))
	lines := make(map[int]line, len(statements))
	order := make([]int, 0, len(statements))
	for n, s := range statements {
		m, ok := s.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading a policy document: statement %d is no JSON object", n)
		}
		c := statement(m)
		text, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("reading a policy document: statement %d: %w", n, err)
		}
		sid, _ := c["Sid"].(string)
		sorted, lines[n], order = append(sorted, c), line{sid, string(text)}, append(order, n)
	}
	// Statements have no order; by Sid first, so that a changed one stays in
	// its place and a report compares it with itself.
	slices.SortFunc(order, func(a, b int) int {
		if c := strings.Compare(lines[a].sid, lines[b].sid); c != 0 {
			return c
		}
		return strings.Compare(lines[a].text, lines[b].text)
	})
	list := make([]any, 0, len(order))
	for i, n := range order {
		if i > 0 && lines[n].text == lines[order[i-1]].text {
			continue
		}
		list = append(list, sorted[n])
	}
	out["Statement"] = list
	return out, nil
}

// statement is one statement in its canonical form.
func statement(raw map[string]any) map[string]any {
	out := make(map[string]any, len(raw))
	for k, v := range raw {
		switch k {
		case "Action", "NotAction", "Resource", "NotResource":
			out[k] = stringSet(v)
		case "Principal", "NotPrincipal":
			out[k] = principals(v)
		case "Condition":
			if c := conditions(v); c != nil {
				out[k] = c
			}
		case "Sid":
			if v != "" {
				out[k] = canonicalValue(v)
			}
		default:
			out[k] = canonicalValue(v)
		}
	}
	return out
}

// stringSet is a list of strings, sorted and without repetitions, of what is one
// string or a list. Numbers and truth values become strings, as IAM takes
// them. What is anything else stays as it is.
func stringSet(v any) any {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		switch e := e.(type) {
		case string:
			out = append(out, e)
		case json.Number:
			out = append(out, e.String())
		case bool:
			out = append(out, fmt.Sprint(e))
		default:
			return canonicalValue(v)
		}
	}
	slices.Sort(out)
	set := make([]any, 0, len(out))
	for _, s := range slices.Compact(out) {
		set = append(set, s)
	}
	return set
}

// principals gives everyone one spelling: "*" is {"AWS": "*"}.
func principals(v any) any {
	if v == "*" {
		return map[string]any{"AWS": []any{"*"}}
	}
	return inEach(canonicalUnlessMap(v), stringSet)
}

// conditions is nil for a Condition without any.
func conditions(v any) any {
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return nil
	}
	return inEach(canonicalUnlessMap(v), func(keys any) any { return inEach(canonicalUnlessMap(keys), stringSet) })
}

// canonicalUnlessMap leaves maps to the caller, which has their fields.
func canonicalUnlessMap(v any) any {
	if _, ok := v.(map[string]any); ok {
		return v
	}
	return canonicalValue(v)
}

// canonicalValue turns numbers into those of canonical objects.
func canonicalValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = canonicalValue(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = canonicalValue(e)
		}
		return out
	}
	return v
}

// Text writes a canonical document for IAM: lists of one string become
// the string, because IAM counts characters.
func Text(doc any) (string, error) {
	m, _ := doc.(map[string]any)
	statements, ok := m["Statement"].([]any)
	if !ok {
		return "", errors.New("writing a policy document: it has no statements")
	}
	out := maps.Clone(m)
	list := make([]any, len(statements))
	for i, s := range statements {
		list[i] = shortStatement(s)
	}
	out["Statement"] = list
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return "", fmt.Errorf("writing a policy document: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}

// shortStatement shortens the fields that statement made lists of.
func shortStatement(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		switch k {
		case "Action", "NotAction", "Resource", "NotResource":
			out[k] = single(v)
		case "Principal", "NotPrincipal":
			out[k] = inEach(v, single)
		case "Condition":
			out[k] = inEach(v, func(keys any) any { return inEach(keys, single) })
		default:
			out[k] = v
		}
	}
	return out
}

// single is the string of a list of one.
func single(v any) any {
	if list, ok := v.([]any); ok && len(list) == 1 {
		if s, ok := list[0].(string); ok {
			return s
		}
	}
	return v
}

// inEach applies do to every value of a map, and leaves what is none.
func inEach(v any, do func(any) any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for k, e := range m {
		out[k] = do(e)
	}
	return out
}

// Replace returns a copy of a document in which every occurrence of a text is
// replaced, in keys and in values.
func Replace(v any, old, by string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, old, by)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Replace(e, old, by)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[strings.ReplaceAll(k, old, by)] = Replace(e, old, by)
		}
		return out
	}
	return v
}
