package api

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cut is what stands where the API server repeated content.
const cut = "***"

// maxRepeatedValue is the length in bytes up to which a repeated string is shown: a
// name or a wrong enum value shows the user what to mend.
const maxRepeatedValue = 64

// quietly is a response's message without the parts of the object that the API
// server repeats in it. Any part may hold a token: the refusal to change a
// Pod prints its whole spec. Where a field is wrong and why stays.
func quietly(s metav1.Status) string {
	text := undump(s.Message)
	if text == s.Message || s.Details == nil || len(s.Details.Causes) == 0 {
		return text
	}
	// A dump hides where the next problem begins; the causes are apart.
	var causes []string
	for _, c := range s.Details.Causes {
		why := undump(c.Message)
		if c.Field != "" {
			why = c.Field + ": " + why
		}
		causes = append(causes, why)
	}
	return strings.Join(causes, ", ")
}

// repeated is what precedes a value that the API server repeats.
var repeated = regexp.MustCompile(`(?:Invalid value|Unsupported value|Duplicate value|Not found|Too many): `)

// undump cuts content out of a text: repeated values that are not short and
// plain, and everything from the first dump of a structure on, since where
// that ends is unknown.
func undump(text string) string {
	var out strings.Builder
	for {
		at := repeated.FindStringIndex(text)
		dump := dumpAt(text)
		if at == nil || dump >= 0 && dump < at[0] {
			break
		}
		out.WriteString(text[:at[1]])
		value := text[at[1]:]
		n, plain := repeatedValue(value)
		if n < 0 {
			return out.String() + cut + immutable(value)
		}
		if plain {
			out.WriteString(value[:n])
		} else {
			out.WriteString(cut)
		}
		text = value[n:]
	}
	if dump := dumpAt(text); dump >= 0 {
		return out.String() + text[:dump] + cut + immutable(text[dump:])
	}
	return out.String() + text
}

// immutable is the reason behind a dump that a person needs most.
func immutable(dumped string) string {
	if strings.HasSuffix(strings.TrimRight(dumped, "]"), ": field is immutable") {
		return ": field is immutable"
	}
	return ""
}

// repeatedValue measures the value at the start of text, and reports whether it
// may be shown. It returns -1 for a value whose end is not known.
func repeatedValue(text string) (n int, plain bool) {
	switch {
	case strings.HasPrefix(text, `"`):
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return -1, false
		}
		value, err := strconv.Unquote(quoted)
		return len(quoted), err == nil && len(value) <= maxRepeatedValue && !strings.ContainsAny(value, "\n{")
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
		var value json.RawMessage
		d := json.NewDecoder(strings.NewReader(text))
		if d.Decode(&value) != nil {
			return -1, false
		}
		return int(d.InputOffset()), false
	}
	value, _, _ := strings.Cut(text, ": ")
	value, _, _ = strings.Cut(value, ", ")
	if len(value) > maxRepeatedValue || strings.ContainsAny(value, "\n{&") || strings.Contains(value, "map[") {
		return -1, false
	}
	return len(value), true
}

// braces matches an opening brace with the word before it, or the other ways in
// which structures are dumped; repetitions of regular expressions and empty
// structures are matched too, and passed over by dumpAt.
var braces = regexp.MustCompile(`[^\s{"'` + "`" + `]*\{(?:[0-9]+(?:,[0-9]*)?\}|\})?|map\[|\.\.\.\||error found in #`)

// dumpAt is where a dump starts, or -1.
func dumpAt(text string) int {
	for _, at := range braces.FindAllStringIndex(text, -1) {
		if !strings.HasSuffix(text[at[0]:at[1]], "}") {
			return at[0]
		}
	}
	return -1
}
