// Package query reads the requests and writes the responses of the two AWS
// query protocols: ec2query (EC2) and awsquery (IAM, STS). A request is a
// flat form whose dotted names stand for a tree (Filter.1.Value.2); a response
// is XML.
//
// It refuses what it does not expect: Form.Unknown names the first
// parameter that no pattern covers, so that an emulator never passes over a
// setting in silence. It depends on no service; start with Form.
package query

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Form is one decoded request: parameter names with their dots, and values.
// The zero Form is an empty request.
type Form struct {
	values map[string]string
}

// Parse decodes a body of type application/x-www-form-urlencoded. A name
// given twice is an error: the protocols have no such thing, and picking one
// of the values would hide a broken client.
func Parse(body string) (Form, error) {
	raw, err := url.ParseQuery(body)
	if err != nil {
		return Form{}, fmt.Errorf("decoding the request's form: %w", err)
	}
	f := Form{values: make(map[string]string, len(raw))}
	for name, vs := range raw {
		if len(vs) != 1 {
			return Form{}, fmt.Errorf("decoding the request's form: parameter %q is given %d times", name, len(vs))
		}
		f.values[name] = vs[0]
	}
	return f, nil
}

// Get returns a parameter's value, "" when it is absent.
func (f Form) Get(name string) string { return f.values[name] }

// Has reports whether the parameter was sent, also with an empty value.
func (f Form) Has(name string) bool {
	_, ok := f.values[name]
	return ok
}

// Names lists all parameters in order.
func (f Form) Names() []string { return slices.Sorted(maps.Keys(f.values)) }

// List reads prefix.1, prefix.2 … in the order of their numbers.
func (f Form) List(prefix string) []string {
	var out []string
	for _, i := range f.Positions(prefix) {
		if v, ok := f.values[prefix+"."+strconv.Itoa(i)]; ok {
			out = append(out, v)
		}
	}
	return out
}

// Each returns the sub-forms prefix.1.*, prefix.2.* … in the order of their
// numbers, with that prefix taken off the names.
func (f Form) Each(prefix string) []Form {
	var out []Form
	for _, i := range f.Positions(prefix) {
		if s := f.Sub(prefix + "." + strconv.Itoa(i)); len(s.values) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// Sub returns everything below prefix, with the prefix taken off.
func (f Form) Sub(prefix string) Form {
	out := Form{values: map[string]string{}}
	for name, v := range f.values {
		if rest, ok := strings.CutPrefix(name, prefix+"."); ok {
			out.values[rest] = v
		}
	}
	return out
}

// Only returns the list prefix.1, prefix.2 … alone, under its name.
func (f Form) Only(prefix string) Form {
	out := Form{values: map[string]string{}}
	for name, v := range f.values {
		if strings.HasPrefix(name, prefix+".") {
			out.values[name] = v
		}
	}
	return out
}

// Positions finds the numbers that follow prefix, each once, ascending.
func (f Form) Positions(prefix string) []int {
	found := map[int]bool{}
	for name := range f.values {
		rest, ok := strings.CutPrefix(name, prefix+".")
		if !ok {
			continue
		}
		head, _, _ := strings.Cut(rest, ".")
		if i, ok := index(head); ok {
			found[i] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// index reads a list position as the protocols write it: from 1, no sign, no
// leading zero, so that each position has exactly one spelling.
func index(s string) (int, bool) {
	if s == "" || len(s) > 6 || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	i, err := strconv.Atoi(s)
	return i, err == nil
}

// Int reads a whole number; ok is false when the parameter is absent.
func (f Form) Int(name string) (n int, ok bool, err error) {
	s, ok := f.values[name]
	if !ok {
		return 0, false, nil
	}
	n, err = strconv.Atoi(s)
	if err != nil {
		return 0, true, fmt.Errorf("parameter %s: %q is not a whole number", name, s)
	}
	return n, true, nil
}

// Bool reads true or false; an absent parameter is false.
func (f Form) Bool(name string) (bool, error) {
	switch f.values[name] {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "":
		if !f.Has(name) {
			return false, nil
		}
	}
	return false, fmt.Errorf("parameter %s: %q is neither true nor false", name, f.values[name])
}

// Unknown returns the first parameter, in order, that none of the patterns
// covers, and "" when all are known. A pattern is a dotted name in which #
// stands for a list position and a last * for anything below.
func (f Form) Unknown(patterns []string) string {
	for _, name := range f.Names() {
		if !slices.ContainsFunc(patterns, func(p string) bool { return covers(p, name) }) {
			return name
		}
	}
	return ""
}

func covers(pattern, name string) bool {
	for {
		p, morePattern, hasP := strings.Cut(pattern, ".")
		if p == "*" && !hasP {
			return name != ""
		}
		n, moreName, hasN := strings.Cut(name, ".")
		if p == "#" {
			if _, ok := index(n); !ok {
				return false
			}
		} else if p != n {
			return false
		}
		if hasP != hasN {
			return false
		}
		if !hasP {
			return true
		}
		pattern, name = morePattern, moreName
	}
}

// Tags are the keys and values of a list of tags, as they are in the request.
func Tags(forms []Form) map[string]string {
	out := map[string]string{}
	for _, f := range forms {
		out[f.Get("Key")] = f.Get("Value")
	}
	return out
}
