package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Document is a policy that was parsed as a whole. The zero Document has no statements
// and allows nothing.
type Document struct {
	statements []statement
}

// statement is one rule of a document.
type statement struct {
	name       string // its Sid, or its number
	deny       bool
	actions    patterns
	resources  patterns
	conditions []condition
}

// patterns are those of Action or Resource, or of their Not.
type patterns struct {
	list []string
	not  bool
}

// Parse reads a policy document. What the package does not emulate is an error
// that names it.
func Parse(text string) (Document, error) {
	doc, err := parse(text)
	if err != nil {
		return Document{}, fmt.Errorf("reading an IAM policy: %w", err)
	}
	return doc, nil
}

func parse(text string) (Document, error) {
	raw, err := decode(text)
	if err != nil {
		return Document{}, err
	}
	top, ok := raw.(map[string]any)
	if !ok {
		return Document{}, errors.New("it is no JSON object")
	}
	if err := only(top, "Version", "Id", "Statement"); err != nil {
		return Document{}, err
	}
	if top["Version"] != "2012-10-17" {
		return Document{}, fmt.Errorf("its Version is %v, and only 2012-10-17 is emulated", top["Version"])
	}
	if id, has := top["Id"]; has {
		if _, ok := id.(string); !ok {
			return Document{}, errors.New("its Id is no string")
		}
	}
	list, ok := top["Statement"].([]any)
	if !ok {
		list = []any{top["Statement"]}
	}
	var doc Document
	for n, raw := range list {
		s, err := parseStatement(raw)
		if err != nil {
			return Document{}, fmt.Errorf("statement %d: %w", n+1, err)
		}
		if s.name == "" {
			s.name = fmt.Sprintf("number %d", n+1)
		} else if slices.ContainsFunc(doc.statements, func(o statement) bool { return o.name == s.name }) {
			return Document{}, fmt.Errorf("statement %d: the Sid %s is taken", n+1, s.name)
		}
		doc.statements = append(doc.statements, s)
	}
	return doc, nil
}

var sidForm = regexp.MustCompile(`^[0-9A-Za-z]*$`)

func parseStatement(raw any) (statement, error) {
	fields, ok := raw.(map[string]any)
	if !ok {
		return statement{}, errors.New("it is no JSON object")
	}
	if err := only(fields, "Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"); err != nil {
		return statement{}, err
	}
	var s statement
	if sid, has := fields["Sid"]; has {
		if s.name, ok = sid.(string); !ok || !sidForm.MatchString(s.name) {
			return statement{}, fmt.Errorf("its Sid %v is not made of letters and digits", sid)
		}
	}
	switch fields["Effect"] {
	case "Allow":
	case "Deny":
		s.deny = true
	default:
		return statement{}, fmt.Errorf("its Effect is %v, neither Allow nor Deny", fields["Effect"])
	}
	var err error
	if s.actions, err = parsePatterns(fields, "Action", actionForm); err != nil {
		return statement{}, err
	}
	if s.resources, err = parsePatterns(fields, "Resource", resourceForm); err != nil {
		return statement{}, err
	}
	if given, has := fields["Condition"]; has {
		if s.conditions, err = parseConditions(given); err != nil {
			return statement{}, err
		}
	}
	return s, nil
}

var (
	actionForm   = regexp.MustCompile(`^(\*|[0-9A-Za-z-]+:[0-9A-Za-z*?]+)$`)
	resourceForm = regexp.MustCompile(`^(\*|arn:[^:]+:[^:*?]+:[^:]*:[^:]*:.+)$`)
)

// parsePatterns reads a field or its Not; exactly one of them must be there.
func parsePatterns(fields map[string]any, field string, form *regexp.Regexp) (patterns, error) {
	given, plain := fields[field]
	negated, not := fields["Not"+field]
	if plain == not {
		return patterns{}, fmt.Errorf("it needs exactly one of %s and Not%s", field, field)
	}
	if not {
		field, given = "Not"+field, negated
	}
	list, err := stringList(given)
	if err != nil {
		return patterns{}, fmt.Errorf("its %s: %w", field, err)
	}
	for _, p := range list {
		if !form.MatchString(p) {
			return patterns{}, fmt.Errorf("its %s %q is not of a form that is emulated", field, p)
		}
	}
	return patterns{list, not}, nil
}

// only refuses fields that are not known.
func only(fields map[string]any, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the field %q is not emulated", name)
		}
	}
	return nil
}

// stringList reads one string or a list of them, without policy variables.
func stringList(raw any) ([]string, error) {
	list, ok := raw.([]any)
	if !ok {
		list = []any{raw}
	}
	if len(list) == 0 {
		return nil, errors.New("the list is empty")
	}
	out := make([]string, len(list))
	for n, v := range list {
		s, ok := v.(string)
		switch {
		case !ok:
			return nil, fmt.Errorf("%v is no string", v)
		case strings.Contains(s, "${"):
			return nil, fmt.Errorf("policy variables are not emulated: %q", s)
		}
		out[n] = s
	}
	return out, nil
}
