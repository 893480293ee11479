package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/internal/golden"
)

// A chart holds everything that it renders, so what config/ has already is copied into it.
func TestTheChartsHaveWhatTheManifestsHave(t *testing.T) {
	for _, part := range []string{"controller", "engine", "gpu", "cluster-reconciler"} {
		raw, err := os.ReadFile(filepath.Join("rbac", part+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join("chart", "poolwright", "files", "rbac", part+".yaml"), raw)
	}
	golden.Compare(t, filepath.Join("chart", "poolwright", "files", "alerts.yaml"), alerts(t))
	for _, file := range dashboards(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join("chart", "poolwright", "files", "dashboards", filepath.Base(file)), raw)
	}
	files, err := crd.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := crd.Files.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, filepath.Join("chart", "poolwright", "crds", file.Name()), labelled(t, raw))
		golden.Compare(t, filepath.Join("chart", "poolwright-crds", "templates", file.Name()), templated(t, raw))
	}
}

// alerts are the rules of config/monitoring, as the chart's template has them in its PrometheusRule.
func alerts(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rules, found := bytes.Cut(raw, []byte("\n      rules:\n"))
	if !found {
		t.Fatal("config/monitoring/rules.yaml has no rules any more: find where they are")
	}
	var out bytes.Buffer
	for line := range bytes.Lines(rules) {
		out.Write(bytes.TrimPrefix(line, []byte("        ")))
	}
	return out.Bytes()
}

// labelled is a definition with the label that config/default gives every object.
func labelled(t *testing.T, definition []byte) []byte {
	t.Helper()
	return insert(t, definition, "\n  name: ", "\n  labels:\n    app.kubernetes.io/part-of: poolwright")
}

// templated is the template of a definition. The serial keeps a controller of an older release from
// replacing it.
func templated(t *testing.T, definition []byte) []byte {
	t.Helper()
	if bytes.Contains(definition, []byte("{{")) {
		t.Fatal("a definition holds {{, which would have to be escaped in a template")
	}
	return insert(t, labelled(t, definition), "\n  labels:\n", fmt.Sprintf("\n    %s: %q", crd.SerialAnnotation, fmt.Sprint(crd.Serial))+`
    {{- if .Values.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}`)
}

// insert puts text in front of the first place of another.
func insert(t *testing.T, into []byte, before, text string) []byte {
	t.Helper()
	head, tail, found := bytes.Cut(into, []byte(before))
	if !found {
		t.Fatalf("a definition has no %q", before)
	}
	return []byte(string(head) + text + before + string(tail))
}

func TestThePagesOfTheChartsHaveEveryValue(t *testing.T) {
	for _, chart := range []string{"poolwright", "poolwright-crds"} {
		dir := filepath.Join("chart", chart)
		introduction, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		head, _, found := strings.Cut(string(introduction), "\n## Values\n")
		if !found {
			t.Fatalf("%s/README.md has no section Values", dir)
		}
		golden.Compare(t, filepath.Join(dir, "README.md"), []byte(head+"\n## Values\n\n| value | default | what it is |\n|---|---|---|\n"+valueRows(t, dir)))
	}
}

// valueRows are a chart's values in the order of its values.yaml, each with the default there and
// the description of the schema. A value in one of the two files only is an error.
func valueRows(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := kyaml.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(filepath.Join(dir, "values.schema.json")); err != nil {
		t.Fatal(err)
	}
	var schema valueSchema
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global")
	var out strings.Builder
	writeValues(t, &out, "", values, schema)
	return out.String()
}

// valueSchema is what the page shows of a JSON schema, and what refuses unknown names.
type valueSchema struct {
	Description          string                 `json:"description"`
	Type                 any                    `json:"type"`
	Properties           map[string]valueSchema `json:"properties"`
	AdditionalProperties any                    `json:"additionalProperties"`
}

func writeValues(t *testing.T, out *strings.Builder, prefix string, values *kyaml.RNode, schema valueSchema) {
	t.Helper()
	if schema.AdditionalProperties != false {
		t.Errorf("the schema accepts unknown names in %q", prefix)
	}
	names, err := values.Fields()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		property, known := schema.Properties[name]
		if !known || property.Description == "" {
			t.Errorf("the schema does not describe %s%s", prefix, name)
		}
		delete(schema.Properties, name)
		value := values.Field(name).Value
		if len(property.Properties) > 0 && len(value.Content()) > 0 {
			writeValues(t, out, prefix+name+".", value, property)
			continue
		}
		got, err := yaml.YAMLToJSON([]byte(value.MustString()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "| `%s%s` | `%s` | %s |\n", prefix, name, bytes.TrimSpace(got), property.Description)
	}
	for name := range schema.Properties {
		t.Errorf("values.yaml has no %s%s, which the schema has", prefix, name)
	}
}
