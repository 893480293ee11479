package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"
)

const namespaceKey = "Namespace//" + namespace

// installed are the objects of config/default. Its golden file has all but the definitions, which get the
// label of the kustomization here.
func installed(t *testing.T) objects {
	t.Helper()
	out := objects{}
	golden, err := os.ReadFile("../../config/testdata/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out.add(t, string(golden))
	for key, definition := range definitions(t) {
		out[key] = definition
	}
	return out
}

// definitions are those of config/crd, labelled as config/default does.
func definitions(t *testing.T) objects {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/poolwright.dev_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	out := objects{}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out.add(t, string(raw))
	}
	for _, definition := range out {
		metadata, _ := definition["metadata"].(map[string]any)
		metadata["labels"] = map[string]any{"app.kubernetes.io/part-of": "poolwright"}
	}
	return out
}

// differ fails the test for each object that two installations do not have alike.
func differ(t *testing.T, want, got objects) {
	t.Helper()
	for key := range want {
		if got[key] == nil {
			t.Errorf("%s is missing", key)
		} else if diff := cmp.Diff(want[key], got[key]); diff != "" {
			t.Errorf("%s (-config +chart):\n%s", key, diff)
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("%s is not of config/", key)
		}
	}
}

func TestWithoutValuesTheChartIsTheDefaultInstallation(t *testing.T) {
	chart := load(t, "poolwright")
	got := rendered(t, chart, nil, namespace)
	for _, definition := range chart.CRDObjects() {
		got.add(t, string(definition.File.Data))
	}
	want := installed(t)
	if want[namespaceKey] == nil || len(want) < 20 {
		t.Fatalf("config/default has %d objects", len(want))
	}
	// The release's record needs the namespace before the chart has made anything, so helm install has a flag
	// for it and refuses one of the chart's.
	delete(want, namespaceKey)
	differ(t, want, got)
}

func TestTheNamespaceOfTheChartIsTheDefaultsAndIsKept(t *testing.T) {
	got := rendered(t, load(t, "poolwright"), parseValues(t, "namespace: {create: true}"), namespace)
	want := installed(t)[namespaceKey]
	metadata, _ := want["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{"helm.sh/resource-policy": "keep"}
	if diff := cmp.Diff(want, got[namespaceKey]); diff != "" {
		t.Error(diff)
	}
}

func TestTheChartOfTheDefinitionsHasThoseOfConfig(t *testing.T) {
	got := rendered(t, load(t, "poolwright-crds"), parseValues(t, "{keep: false, annotations: {example.com/owner: nodes}}"), namespace)
	for key, definition := range got {
		metadata, _ := definition["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations["example.com/owner"] != "nodes" || annotations["poolwright.dev/crd-serial"] == "" {
			t.Errorf("%s has the annotations %v", key, annotations)
		}
		delete(annotations, "example.com/owner")
		delete(annotations, "poolwright.dev/crd-serial")
	}
	differ(t, definitions(t), got)
	for key, definition := range rendered(t, load(t, "poolwright-crds"), nil, namespace) {
		if field(definition, "metadata", "annotations", "helm.sh/resource-policy") != "keep" {
			t.Errorf("helm uninstall would delete %s", key)
		}
	}
}

func TestHelmFindsNothingInTheCharts(t *testing.T) {
	for _, name := range []string{"poolwright", "poolwright-crds"} {
		linter := lint.RunAll(filepath.Join(charts, name), nil, namespace)
		for _, message := range linter.Messages {
			// An icon is a picture on a page of charts, which we have none for.
			if message.Severity > support.InfoSev || message.Path != "Chart.yaml" {
				t.Errorf("%s: %s", name, message)
			}
		}
	}
}

func TestEveryObjectIsInTheReleasesNamespace(t *testing.T) {
	for key, object := range rendered(t, load(t, "poolwright"), parseValues(t, everything), "elsewhere") {
		raw, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(namespace)) {
			t.Errorf("%s names %s:\n%s", key, namespace, raw)
		}
	}
}
