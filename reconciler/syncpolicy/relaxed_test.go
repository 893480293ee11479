package syncpolicy

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

type m = map[string]any

// rules is a spec.ignore of one rule.
func rules(target m, paths ...any) []any {
	rule := m{"paths": paths}
	if target != nil {
		rule["target"] = target
	}
	return []any{rule}
}

func TestWhatRelaxesASyncIsNamed(t *testing.T) {
	git := func(more m) m {
		out := m{"url": "https://git.example/a.git", "ref": m{"branch": "main"}}
		maps.Copy(out, more)
		return m{"source": m{"git": out}}
	}
	pulls := func(more m) m {
		out := m{"provider": "GitHub", "secretRef": m{"name": "forge"}}
		maps.Copy(out, more)
		return m{"pullRequests": out}
	}
	tests := []struct {
		name          string
		before, after m
		want          []string
	}{
		{"a higher percentage", m{"guard": m{"maxPrunePercent": int64(50)}}, m{"guard": m{"maxPrunePercent": int64(51)}}, []string{"spec.guard.maxPrunePercent"}},
		{"a lower percentage is stricter", m{"guard": m{"maxPrunePercent": int64(50)}}, m{"guard": m{"maxPrunePercent": int64(0)}}, nil},
		{"a percentage below the default is taken out", m{"guard": m{"maxPrunePercent": int64(10)}}, m{}, []string{"spec.guard.maxPrunePercent"}},
		{"a percentage above the default is taken out", m{"guard": m{"maxPrunePercent": int64(90)}}, m{}, nil},
		{"a percentage that is no number", m{"guard": m{"maxPrunePercent": int64(10)}}, m{"guard": m{"maxPrunePercent": "9"}}, []string{"spec.guard.maxPrunePercent"}},
		{"a percentage written otherwise", m{"guard": m{"maxPrunePercent": int64(10)}}, m{"guard": m{"maxPrunePercent": 10.0}}, nil},
		{"null instead of a percentage", m{"guard": m{"maxPrunePercent": int64(10)}}, m{"guard": nil}, []string{"spec.guard.maxPrunePercent"}},
		{"more nodes", m{"guard": m{"maxNodesReplaced": int64(0)}}, m{"guard": m{"maxNodesReplaced": int64(1)}}, []string{"spec.guard.maxNodesReplaced"}},
		{"any number of nodes", m{"guard": m{"maxNodesReplaced": int64(5)}}, m{"guard": m{}}, []string{"spec.guard.maxNodesReplaced"}},
		{"a first limit of nodes is stricter", m{"guard": m{}}, m{"guard": m{"maxNodesReplaced": int64(5)}}, nil},
		{"quotas only warn", m{"guard": m{"quota": "Hold"}}, m{"guard": m{"quota": "Warn"}}, []string{"spec.guard.quota"}},
		{"quotas only warn by default", m{"guard": m{"quota": "Hold"}}, m{}, []string{"spec.guard.quota"}},
		{"quotas hold", m{"guard": m{"quota": "Warn"}}, m{"guard": m{"quota": "Hold"}}, nil},
		{"pruning begins", m{"prune": false}, m{"prune": true}, []string{"spec.prune"}},
		{"pruning begins by default", m{"prune": false}, m{}, []string{"spec.prune"}},
		{"pruning ends", m{"prune": true}, m{"prune": false}, nil},
		{"drift is corrected", m{"drift": "Report"}, m{"drift": "Correct"}, []string{"spec.drift"}},
		{"drift is corrected by default", m{"drift": "Report"}, m{}, []string{"spec.drift"}},
		{"drift is only reported", m{"drift": "Correct"}, m{"drift": "Report"}, nil},
		{"the Sync takes its things along", m{"deletionPolicy": "Orphan"}, m{"deletionPolicy": "Delete"}, []string{"spec.deletionPolicy"}},
		{"the Sync leaves its things", m{"deletionPolicy": "Delete"}, m{}, nil},
		{"another folder", m{"path": "a"}, m{"path": "b"}, []string{"spec.path"}},
		{"the root instead of a folder", m{"path": "a"}, m{}, []string{"spec.path"}},
		{"another branch", git(nil), git(m{"ref": m{"branch": "other"}}), []string{"spec.source"}},
		{"a source of Flux instead", git(nil), m{"sourceRef": m{"kind": "Bucket", "name": "a"}}, []string{"spec.source", "spec.sourceRef"}},
		{"another source of Flux", m{"sourceRef": m{"kind": "Bucket", "name": "a"}}, m{"sourceRef": m{"kind": "Bucket", "name": "b"}}, []string{"spec.sourceRef"}},
		{"another credential", git(nil), git(m{"secretRef": m{"name": "other"}}), []string{"spec.source"}},
		{"signatures that are not required any more", git(m{"verify": m{"mode": "HEAD", "secretRef": m{"name": "keys"}}}), git(nil), []string{"spec.source"}},
		{"other signers", git(m{"verify": m{"secretRef": m{"name": "keys"}}}), git(m{"verify": m{"secretRef": m{"name": "mine"}}}), []string{"spec.source"}},
		{"fewer signatures", git(m{"verify": m{"mode": "EveryCommit"}}), git(m{"verify": m{"mode": "HEAD"}}), []string{"spec.source"}},
		{"the same source", git(nil), git(nil), nil},
		{"a branch that may be forced", git(nil), git(m{"fastForwardOnly": false}), []string{"spec.source.git.fastForwardOnly"}},
		{"a branch that may not be forced any more", git(m{"fastForwardOnly": false}), git(m{"fastForwardOnly": true}), nil},
		{"the default is written out", git(nil), git(m{"fastForwardOnly": true}), nil},
		{"reviews end", pulls(nil), m{}, []string{"spec.pullRequests"}},
		{"reviews of another forge", pulls(nil), pulls(m{"url": "https://other.example/a/b"}), []string{"spec.pullRequests"}},
		{"reviews with another credential", pulls(nil), pulls(m{"secretRef": m{"name": "git"}}), []string{"spec.pullRequests"}},
		{"reviews of forks' pull requests", pulls(nil), pulls(m{"forks": true}), []string{"spec.pullRequests"}},
		{"reviews of forks' pull requests end", pulls(m{"forks": true}), pulls(nil), nil},
		{"reviews at another interval", pulls(m{"interval": "1m"}), pulls(m{"interval": "5s", "hoursPerDay": int64(8)}), nil},
		{"reviews begin", m{}, pulls(nil), nil},
		{"a suspended Sync is resumed", m{"suspend": true}, m{"suspend": false}, []string{"spec.suspend"}},
		{"a suspended Sync is resumed by default", m{"suspend": true}, m{}, []string{"spec.suspend"}},
		{"a Sync is suspended", m{}, m{"suspend": true}, nil},
		{"another value of a variable", m{"substitute": m{"A": "1"}}, m{"substitute": m{"A": "2"}}, []string{"spec.substitute"}},
		{"a first variable", m{}, m{"substitute": m{"A": "1"}}, []string{"spec.substitute"}},
		{"variables from elsewhere", m{"substituteFrom": []any{m{"kind": "ConfigMap", "name": "a"}}},
			m{"substituteFrom": []any{m{"kind": "ConfigMap", "name": "b"}}}, []string{"spec.substituteFrom"}},
		{"variables from nowhere", m{"substituteFrom": []any{m{"kind": "ConfigMap", "name": "a"}}}, m{}, []string{"spec.substituteFrom"}},
		{"the same variables", m{"substitute": m{"A": "1"}}, m{"substitute": m{"A": "1"}}, nil},
		{"a dependency is taken out", m{"dependsOn": []any{m{"name": "a"}, m{"name": "b"}}}, m{"dependsOn": []any{m{"name": "b"}}}, []string{"spec.dependsOn"}},
		{"all dependencies are taken out", m{"dependsOn": []any{m{"name": "a"}}}, m{}, []string{"spec.dependsOn"}},
		{"null instead of dependencies", m{"dependsOn": []any{m{"name": "a"}}}, m{"dependsOn": nil}, []string{"spec.dependsOn"}},
		{"an expression instead of the checks", m{"dependsOn": []any{m{"name": "a"}}}, m{"dependsOn": []any{m{"name": "a", "readyExpr": "true"}}}, []string{"spec.dependsOn"}},
		{"another expression", m{"dependsOn": []any{m{"name": "a", "readyExpr": "false"}}}, m{"dependsOn": []any{m{"name": "a", "readyExpr": "true"}}}, []string{"spec.dependsOn"}},
		{"a further dependency, and another order", m{"dependsOn": []any{m{"name": "a"}, m{"name": "b"}}}, m{"dependsOn": []any{m{"name": "c"}, m{"name": "b"}, m{"name": "a"}}}, nil},
		{"a first dependency", m{}, m{"dependsOn": []any{m{"name": "a"}}}, nil},
		{"a field is ignored", m{}, m{"ignore": rules(m{"kind": "Deployment"}, "/spec/replicas")}, []string{"spec.ignore"}},
		{"a further field is ignored", m{"ignore": rules(nil, "/a")}, m{"ignore": rules(nil, "/a", "/b")}, []string{"spec.ignore"}},
		{"a field is ignored in other objects", m{"ignore": rules(m{"kind": "Deployment"}, "/a")}, m{"ignore": rules(m{"kind": "StatefulSet"}, "/a")}, []string{"spec.ignore"}},
		{"a field is ignored in all objects", m{"ignore": rules(m{"kind": "Deployment"}, "/a")}, m{"ignore": rules(nil, "/a")}, []string{"spec.ignore"}},
		{"a field is not ignored any more", m{"ignore": rules(nil, "/a", "/b")}, m{"ignore": rules(nil, "/b")}, nil},
		{"nothing is ignored any more", m{"ignore": rules(nil, "/a")}, m{}, nil},
		{"null instead of rules", m{"ignore": rules(nil, "/a")}, m{"ignore": nil}, nil},
		{"one rule becomes two, in another order", m{"ignore": rules(nil, "/a", "/b")}, m{"ignore": append(rules(nil, "/b"), rules(nil, "/a")...)}, nil},
		{"what guards nothing", m{"interval": "1m"}, m{"interval": "2m"}, nil},
		{"two at once", m{"prune": false, "drift": "Report"}, m{}, []string{"spec.drift", "spec.prune"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key := state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Sync", Namespace: "poolwright-system", Name: "dev"}
			c := plan.Change{Key: key, Action: plan.Update, Before: &state.Item{Object: m{"spec": tt.before}}, After: &state.Item{Object: m{"spec": tt.after}}}
			if d := cmp.Diff(tt.want, relaxed(c)); d != "" {
				t.Error(d)
			}
			c.Key.Group = "example.org"
			if got := relaxed(c); got != nil {
				t.Errorf("another kind of that name: %v", got)
			}
		})
	}
}

// TestEachFieldOfASyncIsClassified has whoever adds a field decide whether Git may change it
// by itself.
func TestEachFieldOfASyncIsClassified(t *testing.T) {
	free := []string{
		"spec.interval", // It delays, and lets nothing pass.
		// What Ready waits for after a revision was applied. No write of this Sync depends on it, and of
		// others only when those that depend on it are applied.
		"spec.wait", "spec.healthChecks", "spec.healthCheckExprs", "spec.timeout",
	}
	var checked []string
	for _, f := range protectedFields() {
		checked = append(checked, f.path)
	}
	var missing []string
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			at := path + "." + name
			switch {
			case name == "": // Inlined in the JSON.
				walk(path, field.Type)
			case slices.Contains(free, at), slices.Contains(checked, at):
			case at == "spec.guard":
				walk(at, field.Type)
			default:
				missing = append(missing, at)
			}
		}
	}
	walk("spec", reflect.TypeFor[v1alpha1.SyncSpec]())
	if len(missing) > 0 {
		t.Errorf("neither among protectedFields nor known to protect nothing: %v", missing)
	}
}

func TestWhatRelaxesAGuardWaitsForAPerson(t *testing.T) {
	update := plan.Change{
		Key: state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Sync", Name: "dev"}, Action: plan.Update,
		Before: &state.Item{Object: m{"spec": m{"prune": false}}}, After: &state.Item{Object: m{"spec": m{"prune": true}}},
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
	pass := func(c plan.Change) plan.Change {
		p := plan.Plan{Changes: []plan.Change{c}, Managed: 20}
		for _, policy := range ForRun(sync, time.Time{}) {
			p = policy(p)
		}
		return p.Changes[0]
	}
	held := pass(update)
	if !held.RelaxesSync() || held.Admitted() {
		t.Fatalf("it is not held: %+v", held)
	}
	drifted := update
	drifted.Drift = true
	if again := pass(drifted); !again.RelaxesSync() {
		t.Error("what a person made stricter by hand is relaxed without confirmation")
	}
	token := hold.Join(held.Hold.Tokens(), Binding(sync))
	sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: "000000000000," + token}
	if confirmed := pass(update); !confirmed.Admitted() {
		t.Errorf("confirmed, it waits: %s", confirmed.Hold)
	}
	other := update
	other.After = &state.Item{Object: m{"spec": m{"prune": true, "drift": "Correct"}}}
	if changed := pass(other); changed.Admitted() {
		t.Error("the token lets another content pass")
	}
}
