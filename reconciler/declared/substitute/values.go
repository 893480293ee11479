package substitute

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Source is where variables get their values. It never prints them.
type Source struct {
	from   string
	secret bool
	data   map[string]hidden
}

// hidden is a value that does not print: the fmt package, which reads unexported fields
// and past their methods, does not call functions.
type hidden func() string

func hide(value string) hidden { return func() string { return value } }

// Public is a source of values that everybody may read. From names it in messages:
// "spec.substitute", "ConfigMap ns/name".
func Public(from string, data map[string]string) Source {
	s := Source{from: from, data: make(map[string]hidden, len(data))}
	for k, v := range data {
		s.data[k] = hide(v)
	}
	return s
}

// Secret is a source whose values must stay secret. From names it in messages:
// "Secret ns/name".
func Secret(from string, data map[string][]byte) Source {
	s := Source{from: from, secret: true, data: make(map[string]hidden, len(data))}
	for k, v := range data {
		s.data[k] = hide(string(v))
	}
	return s
}

// Format keeps the values out of whatever prints a Source.
func (s Source) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%d variables of %s", len(s.data), s.from)
}

// Values are the variables of one Sync. The zero value has none, and neither
// fills in nor reveals anything. Values are not changed once they are made, and
// never print.
type Values struct {
	language  Language
	variables map[string]variable
}

type variable struct {
	value hidden
	from  string
	// ticket stands for the value of a secret: it changes with it and, made under a key,
	// reveals nothing of it. Empty for what is no secret.
	ticket string
	// sealed reports that the value is not known here.
	sealed bool
}

func (v variable) secret() bool { return v.ticket != "" }

// get returns what is known of a variable, and whether it has a value.
func (v Values) get(name string) (variable, bool) {
	one, defined := v.variables[name]
	if !defined {
		one.value = hide("")
	}
	return one, defined
}

// length is that of a variable's value in bytes.
func (v Values) length(name string) int {
	one, _ := v.get(name)
	return len(one.value())
}

// publicLength is length as a process computes it that must not have secrets.
func (v Values) publicLength(name string) int {
	if one, _ := v.get(name); one.secret() {
		return 0
	}
	return v.length(name)
}

// minKey is the least length of the key in bytes.
const minKey = 16

// NewValues joins the sources: a later one wins over an earlier one, so that
// spec.substitute comes last. The key, of at least 16 bytes where there are
// Secrets, must be random, and stay the same for as long as unchanged values
// are to make unchanged objects. An error is for the user to fix.
func NewValues(language Language, key []byte, sources ...Source) (Values, error) {
	if language == nil {
		return Values{}, errors.New("reading variables: there is no language to read expressions in")
	}
	v := Values{language: language, variables: map[string]variable{}}
	var wrong []error
	for _, s := range sources {
		if s.secret && len(key) < minKey {
			return Values{}, fmt.Errorf("reading variables from %s: the key has %d bytes, fewer than %d", s.from, len(key), minKey)
		}
		for _, name := range slices.Sorted(maps.Keys(s.data)) {
			if !isName(name) {
				wrong = append(wrong, fmt.Errorf("%s: %q cannot be the name of a variable: use letters, digits and _, and do not start with a digit", s.from, name))
				continue
			}
			value := strings.ReplaceAll(s.data[name](), "\n", "")
			one := variable{from: s.from}
			if s.secret {
				one.ticket = digest(key, "variable", name, value)
			} else {
				// A file with Windows line ends must not differ by its last one.
				value = strings.TrimRight(value, "\r")
			}
			one.value = hide(value)
			v.variables[name] = one
		}
	}
	if len(wrong) > 0 {
		return Values{}, state.Fail(state.Stalled, "InvalidVariable", errors.Join(wrong...))
	}
	return v, nil
}

// isName reports whether Flux would take the name too.
func isName(name string) bool { return name != "" && nameOf(name) == name }

// Format keeps the values out of whatever prints Values.
func (v Values) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%d variables", len(v.variables)) }

// From is what a variable got its value from, as its Source is called; empty where it
// has none.
func (v Values) From(name string) string { return v.variables[name].from }

// Names lists the variables, sorted.
func (v Values) Names() []string { return slices.Sorted(maps.Keys(v.variables)) }

// Digest changes when any variable, its value or its place does. It reveals nothing of
// a Secret's value to who lacks the key.
func (v Values) Digest() string {
	sealed, err := v.Encode()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(sealed)
	return hex.EncodeToString(sum[:16])
}

// sealed is the form that leaves the process.
type sealed struct {
	Name   string `json:"name"`
	From   string `json:"from"`
	Value  string `json:"value,omitempty"`
	Ticket string `json:"ticket,omitempty"`
}

// Encode writes the values for another process, which is to render untrusted content and
// must not get secrets: of those it has only what Apply needs. What Apply makes there
// is what it makes here.
func (v Values) Encode() ([]byte, error) {
	out := make([]sealed, 0, len(v.variables))
	for _, name := range v.Names() {
		one := v.variables[name]
		s := sealed{Name: name, From: one.from, Ticket: one.ticket}
		if !one.secret() {
			s.Value = one.value()
		}
		out = append(out, s)
	}
	return json.Marshal(out)
}

// Decode reads what Encode wrote. It cannot reveal the values of Secrets.
func Decode(language Language, data []byte) (Values, error) {
	var in []sealed
	if err := json.Unmarshal(data, &in); err != nil {
		return Values{}, errors.New("reading sealed variables: this is not what was written")
	}
	v := Values{language: language, variables: make(map[string]variable, len(in))}
	for _, s := range in {
		if !isName(s.Name) {
			return Values{}, fmt.Errorf("reading sealed variables: %q is no name of a variable", s.Name)
		}
		v.variables[s.Name] = variable{value: hide(s.Value), from: s.From, ticket: s.Ticket, sealed: s.Ticket != ""}
	}
	return v, nil
}

// digest is a keyed hash of parts, 32 hexadecimal digits long.
func digest(key []byte, parts ...string) string {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		fmt.Fprintf(mac, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
