// Package pointer reads and changes canonical JSON values by JSON pointers (RFC 6901).
//
// It refuses to change a value in place: what it returns shares parts with what it was given.
// Start reading at Parse.
package pointer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Pointer is a JSON pointer: the names of fields and the indices of list elements that lead to a
// value. The empty one points to the whole value.
type Pointer []string

// Parse reads a JSON pointer, such as /spec/template/metadata/annotations/example.com~1x. It fails
// for one that does not begin with a slash, or has a ~ that is neither ~0 nor ~1.
func Parse(text string) (Pointer, error) {
	if text == "" {
		return Pointer{}, nil
	}
	rest, found := strings.CutPrefix(text, "/")
	if !found {
		return nil, fmt.Errorf("%q is no JSON pointer: it has to begin with /, such as /spec/replicas", text)
	}
	var out Pointer
	for part := range strings.SplitSeq(rest, "/") {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(part), "~") {
			return nil, fmt.Errorf("%q is no JSON pointer: write ~0 for ~, and ~1 for / in the name of a field", text)
		}
		out = append(out, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return out, nil
}

// String is the pointer as Parse reads it.
func (p Pointer) String() string {
	var out strings.Builder
	for _, part := range p {
		out.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	return out.String()
}

// Within reports whether p points to what other points to, or to a part of that.
func (p Pointer) Within(other Pointer) bool {
	return len(p) >= len(other) && slices.Equal(p[:len(other)], other)
}

// Get returns what p points to; it is false for nothing.
func (p Pointer) Get(value any) (any, bool) {
	for _, part := range p {
		next, ok := step(value, part)
		if !ok {
			return nil, false
		}
		value = next
	}
	return value, true
}

// step returns the field or the element of that name.
func step(value any, part string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		next, ok := v[part]
		return next, ok
	case []any:
		if i, ok := index(v, part); ok {
			return v[i], true
		}
	}
	return nil, false
}

func index(list []any, part string) (int, bool) {
	i, err := strconv.Atoi(part)
	return i, err == nil && i >= 0 && i < len(list) && strconv.Itoa(i) == part
}

// Set is a copy of value in which p points to what is given. Maps that are missing on the way are
// made; a list stays as long as it is: p leads to no element that is missing, and value is then
// returned as it is.
func (p Pointer) Set(value, to any) any {
	if len(p) == 0 {
		return to
	}
	switch v := value.(type) {
	case []any:
		i, ok := index(v, p[0])
		if !ok {
			return value
		}
		out := slices.Clone(v)
		out[i] = p[1:].Set(v[i], to)
		return out
	case map[string]any:
		out := maps.Clone(v)
		if out == nil {
			out = map[string]any{}
		}
		out[p[0]] = p[1:].Set(v[p[0]], to)
		return out
	case nil:
		return map[string]any{p[0]: p[1:].Set(nil, to)}
	}
	return value
}

// Remove is a copy of value without the field that p points to, and without maps that have nothing
// left for that. An element of a list stays, and value is then returned as it is.
func (p Pointer) Remove(value any) any {
	if len(p) == 0 {
		return value
	}
	next, ok := step(value, p[0])
	if !ok {
		return value
	}
	switch v := value.(type) {
	case []any:
		if len(p) == 1 {
			return value
		}
		i, _ := index(v, p[0])
		out := slices.Clone(v)
		out[i] = p[1:].Remove(next)
		return out
	case map[string]any:
		out := maps.Clone(v)
		if len(p) > 1 {
			out[p[0]] = p[1:].Remove(next)
		}
		was, _ := next.(map[string]any)
		if left, isMap := out[p[0]].(map[string]any); len(p) == 1 || isMap && len(left) == 0 && len(was) > 0 {
			delete(out, p[0])
		}
		return out
	}
	return value
}

// ListKeys are the fields by which the elements of lists are distinguished, the first that an
// element has.
func ListKeys() []string { return []string{"name", "key", "type", "id", "alias"} }

// In is the pointer to the same field in other: an element of a list is that with the same name,
// or another of [ListKeys], as in value, and without one that of the same index. Of several with one
// name it is that of the same place among these. It is false where p leads through an element that one
// of both does not have, or has in another number, or into a list that only other has.
func (p Pointer) In(value, other any) (Pointer, bool) {
	out := make(Pointer, 0, len(p))
	for _, part := range p {
		list, isList := value.([]any)
		if !isList {
			if _, listed := other.([]any); listed {
				return nil, false
			}
			out = append(out, part)
			value, _ = step(value, part)
			other, _ = step(other, part)
			continue
		}
		i, ok := index(list, part)
		elements, _ := other.([]any)
		j := same(list, i, elements, ok)
		if j < 0 {
			return nil, false
		}
		out = append(out, strconv.Itoa(j))
		value, other = list[i], elements[j]
	}
	return out, true
}

// same returns the index among elements of what is list[i], or -1.
func same(list []any, i int, elements []any, ok bool) int {
	if !ok {
		return -1
	}
	key, name := keyOf(list[i])
	if key == "" {
		if i >= len(elements) {
			return -1
		}
		return i
	}
	// A name that several have, such as the key of two requirements, is that of the elements in their order.
	mine, others := named(list, key, name), named(elements, key, name)
	if len(mine) != len(others) {
		return -1
	}
	return others[slices.Index(mine, i)]
}

// named are the indices of the elements that have that name in the field key.
func named(list []any, key, name string) []int {
	var out []int
	for i, e := range list {
		if m, _ := e.(map[string]any); m[key] == name {
			out = append(out, i)
		}
	}
	return out
}

// keyOf returns the field that distinguishes an element, with its value; empty where it has none.
func keyOf(element any) (key, value string) {
	m, _ := element.(map[string]any)
	for _, key := range ListKeys() {
		if text, ok := m[key].(string); ok && text != "" {
			return key, text
		}
	}
	return "", ""
}

// Listed reports whether p leads through a list of value.
func (p Pointer) Listed(value any) bool {
	for _, part := range p {
		if _, isList := value.([]any); isList {
			return true
		}
		value, _ = step(value, part)
	}
	return false
}
