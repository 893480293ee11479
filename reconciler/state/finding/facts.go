package finding

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"strings"
)

// Fact is one value that a finding is about. As an argument of a format it is written as its value.
type Fact struct {
	name  string
	value any
	// text is written in the place of the value where it is not nil.
	text any
}

// NewFact is a fact whose name is lowerCamelCase and ends in the unit of a number that has one, as in memoryMiB.
func NewFact(name string, value any) Fact { return Fact{name: name, value: value} }

// As is a fact that a text has in another form.
func As(name string, value, text any) Fact { return Fact{name: name, value: value, text: text} }

// Format implements fmt.Formatter.
func (f Fact) Format(s fmt.State, verb rune) {
	text := f.text
	if text == nil {
		text = f.value
	}
	fmt.Fprintf(s, fmt.FormatString(s, verb), text)
}

// Facts are values by their names, as the JSON of one object in the order of the names: comparable, and empty where
// there are none. The values are texts, numbers, booleans and lists of texts.
type Facts string

// FactsOf are those of the arguments that are a Fact, without those that have no value.
func FactsOf(args ...any) Facts {
	var facts []Fact
	for _, a := range args {
		if fact, ok := a.(Fact); ok {
			facts = append(facts, fact)
		}
	}
	return Facts("").with(facts)
}

func (f Facts) with(facts []Fact) Facts {
	if len(facts) == 0 {
		return f
	}
	all := f.Map()
	if all == nil {
		all = map[string]any{}
	}
	for _, fact := range facts {
		switch value := plainValue(fact.value).(type) {
		case nil:
		case string:
			if value != "" {
				all[fact.name] = value
			}
		case []string:
			if len(value) > 0 {
				all[fact.name] = value
			}
		default:
			all[fact.name] = value
		}
	}
	return factsOf(all)
}

// plainValue is a value as JSON has it.
func plainValue(value any) any {
	switch v := value.(type) {
	case nil, string, bool, []string:
		return v
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	switch r := reflect.ValueOf(value); r.Kind() {
	case reflect.String:
		return r.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return r.Uint()
	case reflect.Float32, reflect.Float64:
		if n := r.Float(); !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n
		}
		return fmt.Sprint(value)
	default:
		return fmt.Sprint(value)
	}
}

func factsOf(values map[string]any) Facts {
	if len(values) == 0 {
		return ""
	}
	raw, err := json.Marshal(values) // The names are sorted.
	if err != nil {
		return ""
	}
	return Facts(raw)
}

// Map is a copy of the values: string, bool, json.Number or []any of strings.
func (f Facts) Map() map[string]any {
	var out map[string]any
	in := json.NewDecoder(strings.NewReader(string(f)))
	in.UseNumber()
	if f == "" || in.Decode(&out) != nil {
		return nil
	}
	return out
}

// Texts are the facts with each of their texts as change returns it.
func (f Facts) Texts(change func(string) string) Facts {
	all := f.Map()
	for name, value := range all {
		switch v := value.(type) {
		case string:
			all[name] = change(v)
		case []any:
			for i := range v {
				if text, ok := v[i].(string); ok {
					v[i] = change(text)
				}
			}
		}
	}
	return factsOf(all)
}

// WithoutNumbers are the facts without those that are numbers, which change while what they are about does not.
func (f Facts) WithoutNumbers() Facts {
	all := f.Map()
	maps.DeleteFunc(all, func(_ string, value any) bool { _, is := value.(json.Number); return is })
	return factsOf(all)
}

// MarshalJSON implements json.Marshaler.
func (f Facts) MarshalJSON() ([]byte, error) {
	if f == "" {
		return []byte("null"), nil
	}
	return []byte(f), nil
}

var factName = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,63}$`)

// UnmarshalJSON implements json.Unmarshaler. What has another form than facts of ours is left out: a process that
// renders what is not trusted may return anything.
func (f *Facts) UnmarshalJSON(raw []byte) error {
	if !json.Valid(raw) {
		return errors.New("facts must be a JSON object")
	}
	all := Facts(raw).Map()
	maps.DeleteFunc(all, func(name string, value any) bool { return !factName.MatchString(name) || !isPlain(value) })
	*f = factsOf(all)
	return nil
}

func isPlain(value any) bool {
	switch v := value.(type) {
	case string, bool:
		return true
	case json.Number:
		// Who reads it as a number gets none that is infinite.
		_, err := v.Float64()
		return err == nil
	case []any:
		for _, one := range v {
			if _, ok := one.(string); !ok {
				return false
			}
		}
		return true
	}
	return false
}
