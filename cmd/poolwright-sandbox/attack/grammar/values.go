package grammar

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Variable is the name of a variable that every Sync of a derived repository has.
const Variable = "VARIABLE"

// quoted is a text as YAML and JSON write it, at the least length.
func quoted(s string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // A text can be written.
	return strings.TrimSuffix(out.String(), "\n")
}

// field is a field of a map in flow style.
func field(name, value string) string { return quoted(name) + ": " + value }

// braced is a map of fields, and bracketed a list.
func braced(fields ...string) string   { return "{" + strings.Join(fields, ", ") + "}" }
func bracketed(items ...string) string { return "[" + strings.Join(items, ", ") + "]" }

// repeated is a text so often, or as often as fits into a third of a file.
func (w *fileWriter) repeated(s string, n int) string {
	return strings.Repeat(s, min(n, w.sizes.FileBytes/3/len(s)+1))
}

// text writes a text, without its quotes. N[0] is its length, or how many of something it has.
func (w *fileWriter) text(d Derivation) string {
	n := d.N[0]
	switch d.Rule {
	case "markup":
		return w.repeated("|*_[](<!--@a#1`~ ```\n", n/20+1)[:min(n, w.sizes.FileBytes/3)]
	case "escaped": // N[1] is which: those of which JSON makes six bytes each, and such.
		return w.repeated([]string{"<", "\u2028", "\x01", "😀", "\""}[d.N[1]], n)
	case "lines":
		return w.repeated("a\n", n/2+1)
	case "variables": // N[1] is which expression.
		return w.repeated([]string{
			"${" + Variable + "}", "${" + Variable + "//x/xxxx}", "${UNSET:-" + strings.Repeat("y", 200) + "}", "$${" + Variable + "}", "${" + Variable + ":0:9}",
		}[d.N[1]], n)
	case "defaults": // so many within each other; N[1] is which
		open, end := []string{"${UNSET:=", "${" + Variable + "/x/", "${" + Variable + ":-"}[d.N[1]], "}"
		return strings.Repeat(open, n) + strings.Repeat(end, n)
	case "references":
		return w.repeated("$(A1)", n)
	}
	return w.repeated("x", n)
}

// value writes a value in flow style. N[0] is how many it has.
func (w *fileWriter) value(d Derivation) string {
	each := func(i int) Derivation { return d.Of[i%len(d.Of)] }
	switch d.Rule {
	case "scalar":
		return quoted(w.text(d.Of[0]))
	case "items":
		return "[" + w.repeat(d.N[0], func(i int) string { return w.value(each(i)) }) + "]"
	case "fields":
		return "{" + w.repeat(d.N[0], func(i int) string { return field(fmt.Sprint("k", i), w.value(each(i))) }) + "}"
	case "nested": // N[0] levels, of lists or of maps
		if d.N[1] == 0 {
			return strings.Repeat("[", d.N[0]) + strings.Repeat("]", d.N[0])
		}
		return strings.Repeat(`{"a": `, d.N[0]) + "0" + strings.Repeat("}", d.N[0])
	case "numbers": // N[1] is which
		return "[" + w.repeat(d.N[0], func(int) string { return []string{"0", "1.0", "1e300", "~", "9223372036854775807"}[d.N[1]] }) + "]"
	case "empty":
		return "[" + w.repeat(d.N[0], func(int) string { return []string{"{}", `{"a": 0}`}[d.N[1]] }) + "]"
	}
	return w.anchored(d)
}

// anchored writes so many levels (N[0]) of so many aliases each (N[1]), as values or merged.
func (w *fileWriter) anchored(d Derivation) string {
	last := w.next("a")
	first := "&" + last + ` {"x": "xxxxxxxxxxxxxxxx"}`
	levels := []string{field("l", first)}
	for range d.N[0] {
		this := w.next("a")
		if d.Rule == "merged" {
			levels = append(levels, field(this, "&"+this+" {<<: ["+w.repeat(d.N[1], func(int) string { return "*" + last })+"], "+field(this, "0")+"}"))
		} else {
			levels = append(levels, field(this, "&"+this+" ["+w.repeat(d.N[1], func(int) string { return "*" + last })+"]"))
		}
		last = this
	}
	return braced(levels...)
}
