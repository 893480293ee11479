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
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
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
	Scaffold   Kind = "Scaffold"
	Removal    Kind = "Removal"
)

// ObjectName identifies an object of Kubernetes.
type ObjectName struct {
	// APIVersion has the group, but for the core group, and the version.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty for an object that is in none.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// WriteNames writes kind and name of each object on a line, as kubectl takes them: nodepool.karpenter.sh/gpu.
func WriteNames(w io.Writer, objects []ObjectName) error {
	for _, o := range objects {
		named := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: o.APIVersion, Kind: o.Kind}, ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
		if err := (&printers.NamePrinter{}).PrintObj(named, w); err != nil {
			return fmt.Errorf("writing names: %w", err)
		}
	}
	return nil
}

// Formats are the formats that a document has.
func Formats() []string { return []string{"json", "yaml"} }

// ObjectFormats are the formats of -o of the commands that change objects or wait for one, the default first: a text for people,
// a document, and the names of the objects.
func ObjectFormats() []string { return append(append([]string{"text"}, Formats()...), "name") }

// CheckFormat refuses a value of -o that is not one of a command's formats.
func CheckFormat(value string, formats []string) error {
	if !slices.Contains(formats, value) {
		return fmt.Errorf("-o %q is not one of %s", value, strings.Join(formats, ", "))
	}
	return nil
}

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
