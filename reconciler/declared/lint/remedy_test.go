package lint

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"testing"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
)

// unexplained are the patterns of Poolwright's definitions for which there is no remedy: most are those of Kubernetes' own names and quantities.
var unexplained = []string{
	`^(/([^/~]|~[01])+)+$`,
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`,
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`,
	`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`,
	`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`,
	`^[A-Za-z_][A-Za-z0-9_]*$`,
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`,
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
	`^source\.toolkit\.fluxcd\.io/v[0-9]+((alpha|beta)[0-9]+)?$`,
}

// addPatterns adds the patterns in a schema, at whatever depth.
func addPatterns(to map[string]bool, schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if pattern, ok := s["pattern"].(string); ok {
			to[pattern] = true
		}
		for _, v := range s {
			addPatterns(to, v)
		}
	case []any:
		for _, v := range s {
			addPatterns(to, v)
		}
	}
}

func TestEachPatternOfADefinitionHasARemedyOrIsListed(t *testing.T) {
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	ours, all := map[string]bool{}, map[string]bool{}
	for _, name := range files {
		text, err := fs.ReadFile(crd.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		var definition map[string]any
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		addPatterns(ours, definition)
	}
	maps.Copy(all, ours)
	for _, definition := range awsapis.CRDs {
		text, err := json.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		addPatterns(all, schema)
	}
	var missing, unused []string
	for pattern := range ours {
		if remedies[pattern] == "" && !slices.Contains(unexplained, pattern) {
			missing = append(missing, pattern)
		}
	}
	for pattern := range remedies {
		if !all[pattern] {
			unused = append(unused, pattern)
		}
	}
	for _, pattern := range unexplained {
		if !ours[pattern] || remedies[pattern] != "" {
			unused = append(unused, pattern)
		}
	}
	if d := cmp.Diff([][]string{nil, nil}, [][]string{missing, unused}); d != "" {
		t.Errorf("patterns without a remedy, and remedies without a pattern (-want +got):\n%s", d)
	}
}
