package operator

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// poolDefinition is the NodePools' definition with more fields in its spec.
func poolDefinition(t *testing.T, fields ...string) client.Reader {
	t.Helper()
	all, err := crds.Known()
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		if crd.Name != "nodepools.karpenter.sh" {
			continue
		}
		for _, field := range fields {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties[field] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		}
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(crd).Build()
	}
	t.Fatal("no definition of NodePools")
	return nil
}

// admittedTarget is admitted without an API server.
type admittedTarget struct {
	targets.Target
	refusals *validation.Errors
	live     client.Reader
}

func (j admittedTarget) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	return j.refusals.Desired(ctx, j.Target, crds.Live(ctx, j.live), declared)
}

func TestAnObjectWithAnUnknownFieldIsRefusedBeforeAnythingIsApplied(t *testing.T) {
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n  wieght: 1\n  template: {spec: {requirements: [{key: a, operator: Exists}], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}}}\n"
	const suggested = `x/a.yaml:5: NodePool.karpenter.sh/p: spec.wieght: unknown field; did you mean "weight"?`
	const other = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}\n"
	nowhere := fake.NewClientBuilder().WithScheme(poolDefinition(t).(client.Client).Scheme()).Build()
	for name, c := range map[string]struct {
		text           string
		live           client.Reader
		problems, want []string
	}{
		"that the cluster does not have either":          {text: pool, live: poolDefinition(t), problems: []string{suggested}},
		"that a newer definition in the cluster has":     {text: pool, live: poolDefinition(t, "wieght"), want: []string{"NodePool.karpenter.sh/p"}},
		"of a kind that the cluster does not have":       {text: pool, live: nowhere, problems: []string{suggested}},
		"without a cluster":                              {text: pool, problems: []string{suggested}},
		"of a Cluster, which the AWS target refuses too": {text: reconcilertest.ClusterFile("a", "  engin: {}\n"), live: poolDefinition(t), problems: []string{`x/a.yaml:8: Cluster.poolwright.dev/a: spec.engin: unknown field; did you mean "engine"?`}},
		"of a kind that the repository defines": {
			text: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Cluster\n  names: {kind: Widget, plural: widgets}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}]\n" +
				"---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nsiez: 1\n",
			live: poolDefinition(t), problems: []string{`x/a.yaml:13: Widget.example.com/w: siez: unknown field; did you mean "size"?`},
			want: []string{"CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			message := &validation.Errors{}
			d, err := (&app{renders: &rendercache.Cache{}, children: newChildren()}).loader(newChildren().followed, "x", &variables.Current{}, message)(t.Context(), at("t", c.text+other))
			if err != nil {
				t.Fatal(err)
			}
			d.BeforeDesired()
			problems := d.Problems
			var got []string
			for _, w := range []reconciler.NamedTarget{
				{Name: aws.Name, Target: aws.Offline(message.Of)},
				{Name: kubernetes.Name, Target: admittedTarget{kubernetes.Offline("dev", nil), message, c.live}},
			} {
				set, err := w.Target.Desired(t.Context(), d.Set)
				refused, ok := errors.AsType[*targets.ProblemsError](err)
				if ok {
					problems = append(problems, refused.Problems...)
				} else if err != nil {
					t.Fatal(err)
				}
				for _, item := range set.Items() {
					got = append(got, item.Key.String())
				}
			}
			var texts []string
			for _, p := range lint.Sorted(problems) {
				texts = append(texts, p.String())
			}
			if diff := cmp.Diff(c.problems, texts); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(append([]string{"ConfigMap/default/other"}, c.want...), got); diff != "" {
				t.Errorf("desired (-want +got):\n%s", diff)
			}
		})
	}
}
