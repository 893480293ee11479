package checked

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// definition is that of a kind of which spec.size is a number.
func definition(t *testing.T, group, kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	text := "metadata: {name: " + plural + "." + group + "}\nspec:\n  group: " + group + "\n  scope: Cluster\n  names: {kind: " + kind + ", plural: " + plural + "}\n" +
		"  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]\n"
	if err := yaml.UnmarshalStrict([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

func TestWhatIsFoundIsDividedByWhoRefusesIt(t *testing.T) {
	standards := Standards{Types: catalog.Load, CRDs: func(func(string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
		return []*apiextensionsv1.CustomResourceDefinition{
			definition(t, "example.com", "Widget", "widgets"), definition(t, "poolwright.dev", "Cluster", "clusters"),
		}, nil
	}}
	const widget = "apiVersion: example.com/v1alpha1\nkind: Widget\nmetadata: {name: w}\nspec: "
	for name, c := range map[string]struct {
		text                                        string
		problems, refused, notes, clusters, unknown []string
	}{
		"nothing of what is in order":                     {text: widget + "{size: 1}\n"},
		"a value of the wrong type, by the API server":    {text: widget + "{size: big}\n", refused: []string{"Widget.example.com/w"}},
		"a field that the schema does not have, by a run": {text: widget + "{siez: 1}\n", refused: []string{"Widget.example.com/w"}, unknown: []string{"Widget.example.com/w"}},
		"a Cluster, by the AWS target":                    {text: "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {size: big}\n", clusters: []string{"Cluster.poolwright.dev/c"}},
		"a file that cannot be read, by every run":        {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n", problems: []string{"a.yaml"}},
		"a secret in Git, by nobody":                      {text: "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {token: x}\n", notes: []string{"Secret/s"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(c.text)}}, ".", substitute.Values{}, nil, standards)
			if err != nil {
				t.Fatal(err)
			}
			var problems, refused, notes []string
			for _, p := range got.Problems {
				problems = append(problems, p.Origin.File)
			}
			for _, p := range got.Refused {
				key, _, _ := strings.Cut(p.Message, ": ")
				refused = append(refused, key)
			}
			for _, n := range got.Notes {
				notes = append(notes, n.Key.String())
			}
			keys := func(in map[state.Key][]state.Problem) (out []string) {
				for key := range in {
					out = append(out, key.String())
				}
				return slices.Compact(out)
			}
			want := [][]string{c.problems, c.refused, c.notes, c.clusters, c.unknown}
			if diff := cmp.Diff(want, [][]string{problems, refused, notes, keys(got.Clusters), keys(got.UnknownFields)}); diff != "" {
				t.Errorf("problems, refused, notes, Clusters and unknown fields (-want +got):\n%s", diff)
			}
		})
	}
}

const (
	onePool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: {spec: {requirements: []}}}\n"
	oneMap  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
)

func TestStandardsThatCannotBeReadAreAnError(t *testing.T) {
	broken := errors.New("the embedded definitions are broken")
	for name, s := range map[string]Standards{
		"the definitions": {Types: catalog.Load, CRDs: func(func(string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) { return nil, broken }},
		"the catalog":     {CRDs: noDefinitions, Types: func() (*catalog.Catalog, error) { return nil, broken }},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(onePool)}}, ".", substitute.Values{}, nil, s)
			if !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func noDefinitions(func(string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return nil, nil
}

// TestStandardsAreReadForWhatIsDeclaredOnly counts what a render does not need to read, which takes
// longer than most renders.
func TestStandardsAreReadForWhatIsDeclaredOnly(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		groups []string
		types  int
	}{
		"no group, no pool":  {oneMap, []string{""}, 0},
		"a NodePool":         {onePool, []string{"karpenter.sh"}, 1},
		"a class, no pool":   {"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\n", []string{"karpenter.k8s.aws"}, 0},
		"both of two groups": {onePool + "---\n" + oneMap, []string{"", "karpenter.sh"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var groups []string
			types := 0
			_, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(c.text)}}, ".", substitute.Values{}, nil, Standards{
				CRDs: func(declared func(string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
					for _, group := range []string{"", "apps", "karpenter.k8s.aws", "karpenter.sh", "poolwright.dev"} {
						if declared(group) {
							groups = append(groups, group)
						}
					}
					return nil, nil
				},
				Types: func() (*catalog.Catalog, error) { types++; return catalog.Load() },
			})
			if err != nil || types != c.types {
				t.Errorf("the catalog was read %d times, want %d: %v", types, c.types, err)
			}
			if d := cmp.Diff(c.groups, groups); d != "" {
				t.Errorf("groups (-want +got):\n%s", d)
			}
		})
	}
}
