package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/state"
)

// TestWhatIsDeclaredWithoutContentIsEmptied takes the last field, or element, that we
// applied out of something that stays declared.
func TestWhatIsDeclaredWithoutContentIsEmptied(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	const object = "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: $NS}\nspec:\n  name: dev\n  region: eu-west-1\n  account: '111122223333'\n"
	const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: $NS}
spec:
`
	const template = `  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}
      requirements: [{key: karpenter.sh/capacity-type, operator: Exists}]
`
	const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: $NS}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: c
        image: i
`
	for _, tt := range []struct {
		name, before, after string
		// path is what is emptied.
		path []string
		want any
	}{
		{"a controller's role", object + "  controllerRole: {name: a}\n", object + "  controllerRole: {}\n", []string{"spec", "controllerRole"}, map[string]any{}},
		{"an interruption queue", object + "  interruptionQueue: {name: a, retention: 2m}\n", object + "  interruptionQueue: {}\n", []string{"spec", "interruptionQueue"}, map[string]any{}},
		{"a discovery", object + "  discovery: {subnets: [subnet-0a1b2c3d4e5f60001]}\n", object + "  discovery: {}\n", []string{"spec", "discovery"}, map[string]any{}},
		{"a discovery's subnets", object + "  discovery: {subnets: [subnet-0a1b2c3d4e5f60001, subnet-0a1b2c3d4e5f60002]}\n", object + "  discovery: {subnets: []}\n", []string{"spec", "discovery", "subnets"}, []any{}},
		{"logging", object + "  logging: {adopt: true, types: [api]}\n", object + "  logging: {}\n", []string{"spec", "logging"}, map[string]any{}},
		{"tags", object + "  tags: {a: b}\n", object + "  tags: {}\n", []string{"spec", "tags"}, map[string]any{}},
		{"add-ons", object + "  addons: [{name: vpc-cni}]\n", object + "  addons: []\n", []string{"spec", "addons"}, []any{}},
		{"an add-on's version, in a list", object + "  managedNodeGroups: [{name: a, labels: {a: b}}, {name: b}]\n", object + "  managedNodeGroups: [{name: a, labels: {}}, {name: b}]\n",
			[]string{"spec", "managedNodeGroups", "0", "labels"}, map[string]any{}},
		{"an engine with defaults", object + "  engine: {batchIdleDuration: 2s}\n", object + "  engine: {}\n", []string{"spec", "engine"}, map[string]any{"mode": "Embedded"}},
		{"gates", object + "  engine: {featureGates: {NodeRepair: true}}\n", object + "  engine: {featureGates: {}}\n", []string{"spec", "engine", "featureGates"}, map[string]any{}},
		{"a class's kubelet", class + "  kubelet: {maxPods: 20}\n", class + "  kubelet: {}\n", []string{"spec", "kubelet"}, map[string]any{}},
		{"a class's metadata options with defaults", class + "  metadataOptions: {httpTokens: optional}\n", class + "  metadataOptions: {}\n", []string{"spec", "metadataOptions", "httpTokens"}, "required"},
		{"a class's tags", class + "  tags: {a: b}\n", class + "  tags: {}\n", []string{"spec", "tags"}, map[string]any{}},
		{"a pool's limits", pool + "  limits: {cpu: 10}\n" + template, pool + "  limits: {}\n" + template, []string{"spec", "limits"}, map[string]any{}},
		{"a pool's labels", pool + strings.Replace(template, "    spec:", "    metadata: {labels: {a: b}}\n    spec:", 1), pool + strings.Replace(template, "    spec:", "    metadata: {}\n    spec:", 1),
			[]string{"spec", "template", "metadata"}, map[string]any{}},
		{"a volume", deployment + "      volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]\n", deployment + "      volumes: [{name: v, emptyDir: {}}]\n",
			[]string{"spec", "template", "spec", "volumes", "0", "emptyDir"}, map[string]any{}},
		{"a container's resources", deployment + "        resources: {limits: {cpu: '1'}}\n", deployment + "        resources: {}\n",
			[]string{"spec", "template", "spec", "containers", "0", "resources"}, map[string]any{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			first := b.declare(tt.before)
			b.reconcile(first)
			item := first.Items()[0]
			live := func() *unstructured.Unstructured {
				u := &unstructured.Unstructured{}
				u.SetGroupVersionKind(schema.GroupVersionKind{Group: item.Key.Group, Version: item.Version, Kind: item.Key.Kind})
				if err := b.hand.Get(t.Context(), client.ObjectKey{Namespace: item.Key.Namespace, Name: item.Key.Name}, u); err != nil {
					t.Fatal(err)
				}
				return u
			}
			b.converged(first)
			second := b.declare(tt.after)
			p := b.reconcile(second)
			if len(p.Changes) != 1 || len(p.Changes[0].Fields) == 0 || p.Changes[0].Before.DryRunError != "" {
				t.Errorf("planned was %s", show(p))
			}
			if d := cmp.Diff(tt.want, at(live().Object, tt.path)); d != "" {
				t.Error(d)
			}
			b.converged(second)
			b.restart()
			b.converged(second)
			// It can be filled, and left out, again.
			b.reconcile(first)
			b.converged(first)
			b.reconcile(second)
			b.converged(second)
		})
	}
}

// at is the value at a path, with indices of lists.
func at(object any, path []string) any {
	for _, name := range path {
		switch v := object.(type) {
		case map[string]any:
			object = v[name]
		case []any:
			object = v[int(name[0]-'0')]
		}
	}
	return object
}

// TestWhatWasEmptiedCanGo: the claim that an emptying leaves is given up with the field.
func TestWhatWasEmptiedCanGo(t *testing.T) {
	b := newBench(t)
	with := func(data string) state.Set {
		return b.declare("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: $NS}\nspec:\n" + data + `  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}
      requirements: [{key: karpenter.sh/capacity-type, operator: Exists}]
`)
	}
	for _, data := range []string{"  limits: {cpu: 10, memory: 1Gi}\n", "  limits: {}\n", "", "  limits: {cpu: 1}\n", "  limits: {}\n"} {
		b.reconcile(with(data))
		b.converged(with(data))
	}
}
