// Package document writes what a command found as a document for programs: JSON or YAML, with apiVersion and kind
// as objects of Kubernetes have them. The schema of each kind is in docs/schema.
//
// It refuses to decide what is in a document. Start reading at Write.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// APIVersion is that of every document. Fields may be added to it; one that is removed, or gets another meaning,
// needs another version.
const APIVersion = "report.poolwright.dev/v1alpha1"

// Kind is what a document is about.
type Kind string

// The kinds of documents that are written here; Overview and Explanation are those of get and explain.
const (
	Plan       Kind = "Plan"
	Findings   Kind = "Findings"
	Costs      Kind = "Costs"
	Conversion Kind = "Conversion"
	Checks     Kind = "Checks"
	Version    Kind = "Version"
	History    Kind = "History"
	Events     Kind = "Events"
)

// Formats are the formats that a document has.
func Formats() []string { return []string{"json", "yaml"} }

// Value writes a value, which must be an object in JSON, as a document of a kind.
func Value(w io.Writer, format string, kind Kind, value any) error {
	return Write(w, format, kind, func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	})
}

// Write writes the object that encode writes as JSON as a document of a kind, in one of Formats.
func Write(w io.Writer, format string, kind Kind, encode func(io.Writer) error) error {
	var encoded bytes.Buffer
	if err := encode(&encoded); err != nil {
		return err
	}
	fields, isObject := bytes.CutPrefix(bytes.TrimSpace(encoded.Bytes()), []byte("{"))
	if !isObject {
		return errors.New("writing a document: it is no object")
	}
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q`, APIVersion, kind)
	if len(bytes.TrimSpace(fields)) > 1 {
		head += ","
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append([]byte(head), fields...), "", "  "); err != nil {
		return fmt.Errorf("writing a document: %w", err)
	}
	out.WriteByte('\n')
	text := out.String()
	if format == "yaml" {
		converted, err := yaml.JSONToYAML(out.Bytes())
		if err != nil {
			return fmt.Errorf("writing a document as YAML: %w", err)
		}
		text = printable(string(converted))
	}
	_, err := io.WriteString(w, text)
	return err
}

// printable replaces what a terminal could act on. JSON has escapes for it, and YAML has none in some of its styles.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
