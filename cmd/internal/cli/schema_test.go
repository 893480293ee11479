package cli

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/history"
	"github.com/poolwright/poolwright/cmd/internal/lintoutput"
	"github.com/poolwright/poolwright/cmd/internal/scaffold"
	"github.com/poolwright/poolwright/cmd/internal/uninstall"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/cost"
	recorded "github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const repository = "../../.."

// documentTypes are the types whose JSON the documents of each kind are.
var documentTypes = map[document.Kind]reflect.Type{
	document.Plan:       reflect.TypeFor[report.Report](),
	document.Findings:   reflect.TypeFor[lintoutput.List](),
	document.Costs:      reflect.TypeFor[cost.Table](),
	document.Conversion: reflect.TypeFor[converted](),
	document.Checks:     reflect.TypeFor[check.Report](),
	document.Version:    reflect.TypeFor[versionInfo](),
	document.History:    reflect.TypeFor[recorded.History](),
	document.Events:     reflect.TypeFor[history.Events](),
	document.Scaffold:   reflect.TypeFor[scaffold.Scaffold](),
	document.Removal:    reflect.TypeFor[uninstall.Removal](),
	"Overview":          reflect.TypeFor[get.Report](),
	"Explanation":       reflect.TypeFor[explain.Explanation](),
}

// schemaOf is the schema of a kind's documents, in which each field is known.
func schemaOf(t *testing.T, kind document.Kind) *jsonschema.Schema {
	t.Helper()
	of := documentTypes[kind]
	schema, err := jsonschema.ForType(of, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[metav1.Time]():     {Types: []string{"null", "string"}, Format: "date-time"},
		reflect.TypeFor[metav1.TypeMeta](): {Type: "object"},
		reflect.TypeFor[finding.Facts]():   {Type: "object"},
	}})
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	comments{}.describe(t, of, schema)
	head := map[string]any{"apiVersion": document.APIVersion, "kind": string(kind)}
	for name, value := range head {
		schema.Properties[name] = &jsonschema.Schema{Type: "string", Const: &value}
	}
	schema.PropertyOrder = append([]string{"apiVersion", "kind"}, schema.PropertyOrder...)
	schema.Required = append([]string{"apiVersion", "kind"}, schema.Required...)
	schema.Schema, schema.Title = "https://json-schema.org/draft/2020-12/schema", string(kind)
	schema.ID = "https://poolwright.dev/schema/v1alpha1/" + string(kind) + ".json"
	return schema
}

// publish removes the rule that there are no other fields: a later release may add some.
func publish(schema *jsonschema.Schema) {
	if rest := schema.AdditionalProperties; rest != nil && rest.Not != nil {
		schema.AdditionalProperties = nil
	} else if rest != nil {
		publish(rest)
	}
	for _, property := range schema.Properties {
		publish(property)
	}
	if schema.Items != nil {
		publish(schema.Items)
	}
}

// `go test ./cmd/internal/cli -run Schema -update` writes them anew.
func TestTheSchemaOfEachKindIsPublished(t *testing.T) {
	for kind := range documentTypes {
		schema := schemaOf(t, kind)
		publish(schema)
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join(repository, "docs", "schema", string(kind)+".json"), append(text, '\n'))
	}
	files, err := filepath.Glob(filepath.Join(repository, "docs", "schema", "*.json"))
	if err != nil || len(files) != len(documentTypes) {
		t.Errorf("docs/schema has %d files for %d kinds, %v", len(files), len(documentTypes), err)
	}
}

// printedDocuments are documents of each kind, as commands print them.
func printedDocuments(t *testing.T) map[document.Kind][]string {
	t.Helper()
	out := map[document.Kind][]string{}
	reports, err := filepath.Glob(filepath.Join(repository, "reconciler", "report", "testdata", "*.json"))
	if err != nil || len(reports) < 30 {
		t.Fatalf("%d reports, %v", len(reports), err)
	}
	for _, name := range reports {
		var text strings.Builder
		err := document.Write(&text, "json", document.Plan, func(w io.Writer) error {
			content, err := os.ReadFile(name)
			if err == nil {
				_, err = w.Write(content)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		out[document.Plan] = append(out[document.Plan], text.String())
	}
	for kind, files := range map[document.Kind][]string{
		document.Findings: {"testdata/lint-json.golden"},
		document.Costs:    {"testdata/cost-altanova-json.golden", "testdata/cost-pingvas-json.golden"},
		document.Checks:   {"testdata/check-json.golden"},
		document.History:  {"../history/testdata/history-json.golden", "../history/testdata/history-yaml.golden"},
		document.Events:   {"../history/testdata/events-json.golden"},
		document.Scaffold: {"testdata/init-json.golden"},
		document.Removal:  {"../uninstall/testdata/removal-json.golden"},
		"Overview":        {"../get/testdata/pools-json.golden", "../get/testdata/quota-yaml.golden"},
		"Explanation":     {"../explain/testdata/pod-json.golden"},
	} {
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			out[kind] = append(out[kind], string(content))
		}
	}
	out[document.Version] = []string{execute(t, "version", "-o", "json").out, execute(t, "version", "-o", "yaml").out}
	old := folder(t, "class.yaml", oldClass)
	out[document.Conversion] = []string{execute(t, "convert", old, "-o", "json").out, execute(t, "convert", old, "-o", "yaml").out}
	return out
}

func TestWhatCommandsPrintIsValidBySchema(t *testing.T) {
	printed := printedDocuments(t)
	for kind := range documentTypes {
		resolved, err := schemaOf(t, kind).Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(printed[kind]) == 0 {
			t.Errorf("no %s is validated", kind)
		}
		for _, text := range printed[kind] {
			var value map[string]any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if err := resolved.Validate(value); err != nil {
				t.Errorf("%s: %v\n%.300s", kind, err, text)
			}
			// A field that the types do not have, and one that is missing.
			value["frobnicate"] = true
			if resolved.Validate(value) == nil {
				t.Errorf("%s: an unknown field is valid", kind)
			}
			delete(value, "frobnicate")
			delete(value, "kind")
			if resolved.Validate(value) == nil {
				t.Errorf("%s: a document without its kind is valid", kind)
			}
		}
	}
}

// validate checks a document of a kind by its schema.
func validate(t *testing.T, kind document.Kind, text string) {
	t.Helper()
	resolved, err := schemaOf(t, kind).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(value); err != nil {
		t.Errorf("%s: %v\n%.300s", kind, err, text)
	}
}

// comments are the comments of the fields of a package's types, by package.
type comments map[string]map[string]map[string]string

// describe sets the descriptions of a type's schema to the comments of its fields.
func (c comments) describe(t *testing.T, of reflect.Type, schema *jsonschema.Schema) {
	t.Helper()
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		if schema.Items != nil {
			c.describe(t, of.Elem(), schema.Items)
		}
	case reflect.Map:
		if schema.AdditionalProperties != nil {
			c.describe(t, of.Elem(), schema.AdditionalProperties)
		}
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			property := schema.Properties[name]
			if field.Anonymous || property == nil {
				continue
			}
			owner := of
			for _, i := range field.Index[:len(field.Index)-1] {
				owner = owner.Field(i).Type
				for owner.Kind() == reflect.Pointer {
					owner = owner.Elem()
				}
			}
			property.Description = c.of(t, owner)[field.Name]
			c.describe(t, field.Type, property)
		}
	default: // has no fields
	}
}

// of are the comments of a type's fields, by the names of these.
func (c comments) of(t *testing.T, named reflect.Type) map[string]string {
	t.Helper()
	folder, ours := strings.CutPrefix(named.PkgPath(), "github.com/poolwright/poolwright/")
	if !ours {
		return nil
	}
	if c[folder] == nil {
		c[folder] = map[string]map[string]string{}
		files, err := filepath.Glob(filepath.Join(repository, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(node ast.Node) bool {
				spec, is := node.(*ast.TypeSpec)
				if is {
					c[folder][spec.Name.Name] = fieldComments(spec)
				}
				return true
			})
		}
	}
	return c[folder][named.Name()]
}

// marker is a line of a comment that is for the generator of a CustomResourceDefinition.
var marker = regexp.MustCompile(`(?m)^\+.*$`)

// fieldComments are the comments of a struct's fields. Of fields that have one in common it is that of each.
func fieldComments(spec *ast.TypeSpec) map[string]string {
	out := map[string]string{}
	structure, is := spec.Type.(*ast.StructType)
	if !is {
		return out
	}
	for _, field := range structure.Fields.List {
		text := strings.Join(strings.Fields(marker.ReplaceAllString(field.Doc.Text(), "")), " ")
		for _, name := range field.Names {
			out[name.Name] = text
		}
	}
	return out
}

// Those that the kinds of documents are for print them, and no other.
func TestEachCommandThatPrintsADocumentHasItInYAMLToo(t *testing.T) {
	root := newRoot(&connection{}, Streams{})
	for _, cmd := range root.Commands() {
		flag := cmd.Flags().Lookup("output")
		if flag == nil {
			continue
		}
		for _, format := range document.Formats() {
			if !slices.Contains(strings.FieldsFunc(flag.Usage, func(r rune) bool { return r == ' ' || r == ',' }), format) {
				t.Errorf("%s -o has no %s: %s", cmd.Name(), format, flag.Usage)
			}
		}
	}
}
