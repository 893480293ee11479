package declared

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
)

// valuesOf are variables as a Sync gives them.
func valuesOf(t *testing.T, plain map[string]string) substitute.Values {
	t.Helper()
	values, err := substitute.NewValues(fluxexpr.Parse, nil, substitute.Public("spec.substitute", plain))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// objectsOf are the declared objects by key, as JSON.
func objectsOf(t *testing.T, d Declared) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, i := range d.Set.Items() {
		object, err := json.Marshal(i.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[i.Key.String()] = string(object)
	}
	return out
}

const variableMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: ${name}-settings
  namespace: ${space}
data:
  count: "${count} nodes"
`

func TestVariablesAreFilledInBeforeAnObjectIsKnown(t *testing.T) {
	filled := map[string]string{
		"ConfigMap/team/gpu-settings": `{"apiVersion":"v1","data":{"count":"3 nodes"},"kind":"ConfigMap","metadata":{"name":"gpu-settings","namespace":"team"}}`,
	}
	for name, c := range map[string]struct {
		files []string
		want  map[string]string
	}{
		"in plain manifests": {[]string{"x/a.yaml", variableMap}, filled},
		"in a kustomization": {[]string{"x/kustomization.yaml", "resources: [a.yaml]\n", "x/a.yaml", variableMap}, filled},
		"in what a kustomization sets": {[]string{
			"x/kustomization.yaml", "namespace: ${space}\nnamePrefix: ${name}-\nresources: [a.yaml]\npatches:\n- target: {kind: ConfigMap, name: settings}\n  patch: |\n    - op: replace\n      path: /data/count\n      value: '${count} nodes'\n",
			"x/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {count: '0'}\n",
		}, filled},
		"in a number, and in an old API of Karpenter": {
			[]string{"x/a.yaml", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: '${name}'}\nspec:\n  weight: ${count}\n  limits: {cpu: '${count}'}\n  template:\n    spec:\n      nodeClassRef: {name: '${name}'}\n      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: ['${kind:=spot}']}]\n"},
			map[string]string{"NodePool.karpenter.sh/gpu": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, problems := problemsOf(tree(c.files...), "x", Options{Values: valuesOf(t, map[string]string{"name": "gpu", "space": "team", "count": "3"})})
			got := objectsOf(t, d)
			for key, object := range c.want {
				if object == "" {
					c.want[key] = got[key]
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || problems != "" {
				t.Fatalf("%s\n%s", problems, diff)
			}
			for _, i := range d.Set.Items() {
				if spec, ok := i.Object["spec"].(map[string]any); ok && spec["weight"] != int64(3) {
					t.Errorf("the weight is %#v", spec["weight"])
				}
			}
		})
	}
}

func TestAVariableWithoutAValueIsAProblemWithItsLine(t *testing.T) {
	for name, files := range map[string][]string{
		"in plain manifests": {"x/a.yaml", variableMap},
		"in a kustomization": {"x/kustomization.yaml", "resources: [a.yaml]\n", "x/a.yaml", variableMap},
	} {
		d, got := problemsOf(tree(files...), "x", Options{Values: valuesOf(t, map[string]string{"name": "gpu", "space": "team"})})
		if want := "x/a.yaml:7: "; len(got) < len(want) || got[:len(want)] != want || d.Set.Len() != 0 {
			t.Errorf("%s: %q, %d objects", name, got, d.Set.Len())
		}
	}
}

func TestWithoutVariablesTextStaysAsItIs(t *testing.T) {
	const script = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {run: 'echo ${HOME} $$'}\n"
	d, problems := problemsOf(tree("x/a.yaml", script), "x", Options{Values: valuesOf(t, nil)})
	want := map[string]string{"ConfigMap/a": `{"apiVersion":"v1","data":{"run":"echo ${HOME} $$"},"kind":"ConfigMap","metadata":{"name":"a"}}`}
	if diff := cmp.Diff(want, objectsOf(t, d)); diff != "" || problems != "" {
		t.Errorf("%s\n%s", problems, diff)
	}
}

func TestWithoutVariablesNoNodeIsMadeOfTextThatHoldsOne(t *testing.T) {
	const class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n"
	const reported = " has no variables: set CLUSTER_NAME in its spec.substitute, or on a command line with --substitute CLUSTER_NAME=VALUE or --sync-file; " +
		"where the text is meant as it is, put the annotation kustomize.toolkit.fluxcd.io/substitute: disabled on the object"
	const desired = "x/a.yaml:6: EC2NodeClass gpu holds ${CLUSTER_NAME}, and the Sync" + reported
	for name, c := range map[string]struct {
		file, want string
		options    Options
	}{
		"a text":                               {file: class + "  role: a\n  tags: {a: 'x-${CLUSTER_NAME}'}\n", want: desired},
		"a key":                                {file: class + "  role: a\n  tags: {'k/${CLUSTER_NAME}': a}\n", want: desired},
		"a default":                            {file: class + "  role: a\n  tags: {'k/${CLUSTER_NAME:=a}': a}\n", want: desired},
		"the second text of a list":            {file: class + "  subnetSelectorTerms:\n  - id: a\n    tags: {a: '${CLUSTER_NAME}'}\n", want: strings.Replace(desired, ":6:", ":7:", 1)},
		"a name":                               {file: "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: ${CLUSTER_NAME}\n", want: "x/a.yaml:4: Cluster ${CLUSTER_NAME} holds ${CLUSTER_NAME}, and the Sync" + reported},
		"an old API":                           {file: "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: gpu}\nspec:\n  labels: {a: '${CLUSTER_NAME}'}\n", want: "x/a.yaml:5: Provisioner gpu holds ${CLUSTER_NAME}, and the Sync" + reported},
		"not user data":                        {file: class + "  userData: 'echo ${HOME}'\n"},
		"not the sign of an escaped one":       {file: class + "  role: 'a-$${HOME}-$HOME-${'\n"},
		"not where it is declared to be meant": {file: strings.Replace(class, "gpu}", "gpu, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}", 1) + "  role: '${CLUSTER_NAME}'\n"},
		"not another kind":                     {file: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '${CLUSTER_NAME}'}\n"},
		"not a draft":                          {file: class + "  role: '${CLUSTER_NAME}'\n", options: Options{UnresolvedVariables: true}},
		"not a Sync that has variables":        {file: class + "  role: '${CLUSTER_NAME}'\n", options: Options{Values: valuesOf(t, map[string]string{"CLUSTER_NAME": "dev"})}},
	} {
		t.Run(name, func(t *testing.T) {
			d, got := problemsOf(tree("x/a.yaml", c.file, "x/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"), "x", c.options)
			if want := map[bool]int{true: 2, false: 1}[c.want == ""]; strings.TrimSpace(got) != c.want || d.Set.Len() != want {
				t.Errorf("%d objects\n%s\nwant\n%s", d.Set.Len(), got, c.want)
			}
		})
	}
}
