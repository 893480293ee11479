package state

import "github.com/poolwright/poolwright/reconciler/state/pointer"

// IgnoredValue is the live value of a field that is not corrected.
type IgnoredValue struct {
	// Pointer is the JSON pointer to the field in the desired Object.
	Pointer string
	// Value is what the live thing has there, and Present whether it has anything.
	Value   any
	Present bool
	// Declared is true where the desired Object has the field, too.
	Declared bool
}

// Hash is the Hash of the Object as far as it is corrected: without the fields that Ignore names, and
// with their names. Without a rule, what it let be is compared again.
func (i Item) Hash() string {
	if len(i.Ignore) == 0 {
		return Hash(i.Object)
	}
	return Hash([]any{i.WithoutIgnored(), i.Ignore})
}

// WithoutIgnored is a copy of the Object without the fields that Ignore names.
func (i Item) WithoutIgnored() map[string]any {
	out := i.Object
	for _, text := range i.Ignore {
		if p, err := pointer.Parse(text); err == nil {
			out, _ = p.Remove(out).(map[string]any)
		}
	}
	return out
}

// Keep is a copy of an Object with the live values of ignored fields in the place of its own, and
// with those that it does not declare.
func Keep(object map[string]any, values []IgnoredValue) map[string]any {
	return keep(object, values, false)
}

// KeepDeclared is Keep for the fields that are declared alone.
func KeepDeclared(object map[string]any, values []IgnoredValue) map[string]any {
	return keep(object, values, true)
}

func keep(object map[string]any, values []IgnoredValue, declared bool) map[string]any {
	for _, v := range values {
		p, err := pointer.Parse(v.Pointer)
		switch {
		case err != nil, declared && !v.Declared:
		case v.Present:
			object, _ = p.Set(object, v.Value).(map[string]any)
		default:
			object, _ = p.Remove(object).(map[string]any)
		}
	}
	return object
}

// IgnoredValues reads the fields of a live object that the pointers name in the desired one. Those of
// an element of a list that the live one lacks are left out: it is made with the desired values.
func IgnoredValues(pointers []string, desired, live map[string]any) []IgnoredValue {
	var out []IgnoredValue
	for _, text := range pointers {
		p, err := pointer.Parse(text)
		if err != nil {
			continue
		}
		if at, ok := p.In(desired, live); ok {
			value, present := at.Get(live)
			_, declared := p.Get(desired)
			out = append(out, IgnoredValue{Pointer: text, Value: value, Present: present, Declared: declared})
		}
	}
	return out
}
