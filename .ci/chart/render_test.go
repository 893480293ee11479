package chart

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	charts    = "../../config/chart"
	namespace = "poolwright-system"
)

// objects are Kubernetes objects by their kind, namespace and name.
type objects map[string]map[string]any

func load(t *testing.T, name string) *v2.Chart {
	t.Helper()
	chart, err := loader.Load(filepath.Join(charts, name))
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// parseValues reads values as YAML.
func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// render renders a chart's templates as helm install would, with the schema applied to its values.
func render(t *testing.T, chart *v2.Chart, values map[string]any, in string) (map[string]string, error) {
	t.Helper()
	options := common.ReleaseOptions{Name: "poolwright", Namespace: in, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(chart, all)
}

// rendered are the objects of a chart's templates. Its definitions in the folder crds, which Helm does not
// render, are not among them.
func rendered(t *testing.T, chart *v2.Chart, values map[string]any, in string) objects {
	t.Helper()
	files, err := render(t, chart, values, in)
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for name, content := range files {
		if filepath.Ext(name) == ".yaml" {
			out.add(t, content)
		}
	}
	return out
}

// add adds the objects of a file with YAML documents, each of which must be there once.
func (o objects) add(t *testing.T, content string) {
	t.Helper()
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if len(object) == 0 {
			continue // of comments only
		}
		key := strings.Join([]string{field(object, "kind"), field(object, "metadata", "namespace"), field(object, "metadata", "name")}, "/")
		if o[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		o[key] = object
	}
}

// at is a value within an object, nil where it is not there.
func at(object map[string]any, path ...string) any {
	var value any = object
	for _, name := range path {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	return value
}

func field(object map[string]any, path ...string) string {
	text, _ := at(object, path...).(string)
	return text
}
