package ignore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
)

type m = map[string]any

func item(group, version, kind, namespace, name string, object m) state.Item {
	if object == nil {
		object = m{}
	}
	return state.Item{Key: state.Key{Target: "kubernetes", Group: group, Kind: kind, Namespace: namespace, Name: name}, Version: version, Object: object, Origin: state.Origin{File: "a.yaml", Line: 4}}
}

func deployment() state.Item {
	return item("apps", "v1", "Deployment", "models", "web", m{
		"metadata": m{"labels": m{"team": "infra"}, "annotations": m{"scaled-by": "queue"}},
		"spec":     m{"replicas": int64(2), "containers": []any{m{"name": "a", "image": "i"}}, "args": []any{"x"}},
	})
}

func TestARuleIsForWhatItsTargetSelects(t *testing.T) {
	tests := []struct {
		name   string
		target *v1alpha1.Selector
		want   bool
	}{
		{"no target", nil, true},
		{"an empty target", &v1alpha1.Selector{}, true},
		{"all conditions", &v1alpha1.Selector{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "models", Name: "web", LabelSelector: "team=infra", AnnotationSelector: "scaled-by in (queue, hpa)"}, true},
		{"expressions", &v1alpha1.Selector{Kind: "Deployment|StatefulSet", Name: "w.*"}, true},
		{"a part of the name", &v1alpha1.Selector{Name: "we"}, false},
		{"alternatives of which one is a part of the name", &v1alpha1.Selector{Name: "x|we"}, false},
		{"another group", &v1alpha1.Selector{Group: "batch"}, false},
		{"another version", &v1alpha1.Selector{Version: "v1beta1"}, false},
		{"another kind", &v1alpha1.Selector{Kind: "StatefulSet"}, false},
		{"another namespace", &v1alpha1.Selector{Namespace: "default"}, false},
		{"another label", &v1alpha1.Selector{LabelSelector: "team=other"}, false},
		{"no such label", &v1alpha1.Selector{LabelSelector: "!team"}, false},
		{"another annotation", &v1alpha1.Selector{AnnotationSelector: "team"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := New([]v1alpha1.IgnoreRule{{Paths: []string{"/spec/replicas"}, Target: tt.target}})
			if err := rules.Err(); err != nil {
				t.Fatal(err)
			}
			matching := rules.Begin()
			got, problems := matching.Apply(deployment())
			if (len(got.Ignore) == 1) != tt.want || len(problems) > 0 || (len(matching.Unused()) == 0) != tt.want {
				t.Errorf("ignored %v, problems %v, unused %v", got.Ignore, problems, matching.Unused())
			}
		})
	}
}

func TestARuleThatCannotBeUsedIsAnError(t *testing.T) {
	tests := []struct {
		name, want string
		rule       v1alpha1.IgnoreRule
	}{
		{"no pointer", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"spec.replicas"}}},
		{"the whole object", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{""}}},
		{"all metadata", "spec.ignore[1].paths[1]: ", v1alpha1.IgnoreRule{Paths: []string{"/spec", "/metadata"}}},
		{"all labels", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"/metadata/labels"}}},
		{"owners", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"/metadata/ownerReferences"}}},
		{"a label of ours", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"/metadata/labels/poolwright.dev~1sync"}}},
		{"an annotation of ours", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"/metadata/annotations/poolwright.dev~1prune"}}},
		{"the status", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"/status/phase"}}},
		{"the kind", "spec.ignore[1].paths[0]: ", v1alpha1.IgnoreRule{Paths: []string{"/kind"}}},
		{"an expression that is none", "spec.ignore[1].target.name: ", v1alpha1.IgnoreRule{Paths: []string{"/spec"}, Target: &v1alpha1.Selector{Name: "("}}},
		{"an expression that closes a group of ours", "spec.ignore[1].target.name: \"a)|(b\" ", v1alpha1.IgnoreRule{Paths: []string{"/spec"}, Target: &v1alpha1.Selector{Name: "a)|(b"}}},
		{"an expression, without what is added to it", "missing closing ): `(`): ", v1alpha1.IgnoreRule{Paths: []string{"/spec"}, Target: &v1alpha1.Selector{Kind: "("}}},
		{"a label selector that is none", "spec.ignore[1].target.labelSelector: \"a in\" ", v1alpha1.IgnoreRule{Paths: []string{"/spec"}, Target: &v1alpha1.Selector{LabelSelector: "a in"}}},
		{"an annotation selector that is none", "spec.ignore[1].target.annotationSelector: \"a in\" ", v1alpha1.IgnoreRule{Paths: []string{"/spec"}, Target: &v1alpha1.Selector{AnnotationSelector: "a in"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := New([]v1alpha1.IgnoreRule{{Paths: []string{"/spec/replicas"}}, tt.rule})
			class, reason, _ := state.Classify(rules.Err())
			if class != state.Stalled || reason != "InvalidIgnoreRule" || !strings.Contains(rules.Err().Error(), tt.want) {
				t.Errorf("%v, %s: %v", class, reason, rules.Err())
			}
		})
	}
}

func TestGuardsAreNotIgnored(t *testing.T) {
	pool := item("karpenter.sh", "v1", "NodePool", "", "gpu", m{"spec": m{"limits": m{"cpu": "1"}}})
	secret := item("", "v1", "Secret", "a", "token", nil)
	tests := []struct {
		name string
		path string
		item state.Item
		want bool
	}{
		{"a Sync", "/spec/prune", item("poolwright.dev", "v1alpha1", "Sync", "a", "dev", nil), false},
		{"a label of a Sync", "/metadata/labels/a", item("poolwright.dev", "v1alpha1", "Sync", "a", "dev", nil), false},
		{"a Cluster", "/spec/engine/mode", item("poolwright.dev", "v1alpha1", "Cluster", "", "dev", nil), false},
		{"a DevicePlugin", "/spec/configs", item("poolwright.dev", "v1alpha1", "DevicePlugin", "", "dev", nil), false},
		{"rules of a role", "/rules", item("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "r", nil), false},
		{"a label of a role, by which others aggregate it", "/metadata/labels/a", item("rbac.authorization.k8s.io", "v1", "ClusterRole", "", "r", nil), false},
		{"data of a Secret", "/data", secret, false},
		{"a value of a Secret", "/data/token", secret, false},
		{"text of a Secret", "/stringData/token", secret, false},
		{"an annotation of a Secret", "/metadata/annotations/a", secret, false},
		{"a label of a Secret", "/metadata/labels/a", secret, true},
		{"data of a ConfigMap", "/data/token", item("", "v1", "ConfigMap", "a", "c", nil), true},
		{"the spec of a pool", "/spec", pool, false},
		{"the limits of a pool", "/spec/limits", pool, true},
		{"the spec of a Deployment", "/spec", deployment(), true},
		{"a container", "/spec/containers/0", deployment(), false},
		{"the name of a container", "/spec/containers/0/name", deployment(), false},
		{"the image of a container", "/spec/containers/0/image", deployment(), true},
		{"an argument", "/spec/args/0", deployment(), false},
		{"all arguments", "/spec/args", deployment(), true},
		{"a container that is not declared", "/spec/containers/7/image", deployment(), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := New([]v1alpha1.IgnoreRule{ignoring(tt.item.Key.Kind, tt.path)}).Begin().Apply(tt.item)
			if (len(got.Ignore) == 1) != tt.want || (len(problems) == 0) != tt.want {
				t.Fatalf("ignored %v, problems %v", got.Ignore, problems)
			}
			if tt.want {
				return
			}
			p := problems[0]
			if p.Origin != tt.item.Origin || p.Object != tt.item.Key || p.Field != "spec.ignore[0].paths[0]" || !strings.Contains(p.Detail, tt.path) {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestOverlappingPathsAreOne(t *testing.T) {
	rules := New([]v1alpha1.IgnoreRule{{Paths: []string{"/spec/b", "/spec/a/x", "/spec/a"}}, {Paths: []string{"/spec/b/y", "/spec/b", "/spec/ab"}}})
	got, _ := rules.Begin().Apply(deployment())
	if d := cmp.Diff([]string{"/spec/a", "/spec/ab", "/spec/b"}, got.Ignore); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/spec"}, Add(got.Ignore, pointer.Pointer{"spec"})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(got.Ignore, Add(got.Ignore, pointer.Pointer{"spec", "a", "z"})); d != "" {
		t.Error(d)
	}
}

// ignoring is a rule for all objects of a kind.
func ignoring(kind, path string) v1alpha1.IgnoreRule {
	return v1alpha1.IgnoreRule{Paths: []string{path}, Target: &v1alpha1.Selector{Kind: kind}}
}

func TestARuleForEverythingIsRefusedOnlyWhereAFieldIsDeclared(t *testing.T) {
	sync := item("poolwright.dev", "v1alpha1", "Sync", "a", "dev", m{"spec": m{"prune": true}})
	role := item("rbac.authorization.k8s.io", "v1", "Role", "a", "r", m{"rules": []any{}})
	secret := item("", "v1", "Secret", "a", "token", m{"data": m{"token": "x"}})
	tests := []struct {
		name string
		path string
		item state.Item
		want bool
	}{
		{"replicas of a Sync", "/spec/replicas", sync, true},
		{"prune of a Sync", "/spec/prune", sync, false},
		{"replicas of a role", "/spec/replicas", role, true},
		{"rules of a role", "/rules", role, false},
		{"an annotation of a Secret without it", "/metadata/annotations/a", secret, true},
		{"another value of a Secret", "/data/other", secret, true},
		{"a value of a Secret", "/data/token", secret, false},
		{"text of a Secret", "/stringData/token", secret, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := New([]v1alpha1.IgnoreRule{{Paths: []string{tt.path}}}).Begin().Apply(tt.item)
			if len(got.Ignore) > 0 || (len(problems) == 0) != tt.want {
				t.Errorf("ignored %v, problems %v", got.Ignore, problems)
			}
		})
	}
}

func TestADeclaredSyncWhoseRulesCannotBeParsedIsRefused(t *testing.T) {
	with := func(kind, name string) state.Item {
		return item("poolwright.dev", "v1alpha1", kind, "a", "dev", m{"spec": m{"ignore": []any{m{"paths": []any{"/spec/x"}, "target": m{"name": name}}}}})
	}
	for name, tt := range map[string]struct {
		item state.Item
		want bool
	}{
		"an expression that is none": {with("Sync", "web("), true},
		"an expression":              {with("Sync", "web"), false},
		"another kind":               {with("Cluster", "web("), false},
	} {
		problem, found := Declared(tt.item)
		if found != tt.want || found && (problem.Object != tt.item.Key || problem.Origin != tt.item.Origin || problem.Field != "spec.ignore") {
			t.Errorf("%s: %v %+v", name, found, problem)
		}
	}
}
