package kubernetes_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

const away = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: away, namespace: $NS-payments}\ndata: {a: x}"

func TestANamespaceThatIsNeitherThereNorDeclaredIsWarnedOf(t *testing.T) {
	const home = "apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-payments}"
	const refused = `ConfigMap/$NS-payments/away: Warning: namespace "$NS-payments" does not exist and nothing declares it: creating this is refused`
	tests := []struct {
		name     string
		declared []string
		code     int
		lists    int
		notes    []string
	}{
		{"it is neither", []string{away}, 0, 1, []string{refused}},
		{"many objects request once", []string{config, web, away}, 0, 1, []string{refused}},
		{"it is declared beside", []string{away, home}, 0, 0, nil},
		{"it is there", []string{config}, 0, 1, nil},
		{"nothing that is missing has one", []string{pool}, 0, 0, nil},
		{"it may not be read", []string{away}, 403, 1, nil},
		{"it cannot be read now", []string{away}, 500, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			// With an inventory nothing but the kinds of what is desired is listed.
			before := strings.Replace(pool, "{name: $NS,", "{name: $NS-before,", 1)
			b.reconcile(b.declare(before))
			b.wire.failing(func(r *http.Request) (*http.Response, error) {
				if tt.code != 0 && strings.HasSuffix(r.URL.Path, "/api/v1/namespaces") {
					return response(r, tt.code, map[int]string{403: "Forbidden", 500: "InternalError"}[tt.code], "no"), nil
				}
				return nil, nil
			})
			declared := b.declare(append(tt.declared, before)...)
			b.want(declared)
			b.wire.take()
			p := b.plan(declared)
			// A Namespace that is desired is looked for as any other object.
			if n := lists(b.wire.take()) - countKind(declared, "Namespace"); n != tt.lists {
				t.Errorf("%d lists of namespaces, want %d", n, tt.lists)
			}
			if len(p.Changes) != len(tt.declared) || p.Changes[0].Action != plan.Create {
				t.Errorf("changes: %v", b.lines(p))
			}
			if d := cmp.Diff(tt.notes, notes(b, p)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTheWarningOfANamespaceIsTrue(t *testing.T) {
	b := newBench(t)
	declared := b.declare(away, config)
	p := b.plan(declared)
	if len(notes(b, p)) != 1 {
		t.Fatalf("notes: %v", p.Notes)
	}
	errs := b.apply(p)
	if len(errs) != 1 || !strings.Contains(errs["ConfigMap/"+b.ns+"-payments/away"].Error(), "not found") {
		t.Fatalf("errors: %v", errs)
	}
	// The rest is there now, and vouches for its own namespace.
	if p = b.plan(declared); len(p.Changes) != 1 || len(notes(b, p)) != 1 {
		t.Errorf("again: %v, %v", b.lines(p), p.Notes)
	}
	b.make("apiVersion: v1\nkind: Namespace\nmetadata: {name: $NS-payments}", "hand")
	if p = b.reconcile(declared); len(p.Notes) != 0 {
		t.Errorf("with the namespace: %v", p.Notes)
	}
	b.wire.take()
	b.converged(declared)
	if n := lists(b.wire.take()); n != 0 {
		t.Errorf("an unchanged reconcile lists namespaces %d times", n)
	}

	// What was ours, and went with its namespace, is reported with its drift. The control
	// plane of the tests never ends such a deletion.
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": b.ns + "-payments"}}}
	if err := b.hand.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "away", "namespace": b.ns + "-payments"}}}
	if err := b.hand.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	p = b.plan(declared)
	want := []string{`ConfigMap/$NS-payments/away: Warning: namespace "$NS-payments" is being deleted and nothing declares it: creating this is refused`}
	if d := cmp.Diff(want, notes(b, p)); d != "" || len(p.Changes) != 1 || !p.Changes[0].Drift {
		t.Error(d, b.lines(p))
	}
}

func TestAProposalWarnsOfTheNamespaceThatItMisses(t *testing.T) {
	b := newBench(t)
	base := b.declare(config)
	b.reconcile(base)
	got := b.propose(base, b.declare(config, away))
	want := []string{
		"create ConfigMap/$NS-payments/away",
		`ConfigMap/$NS-payments/away: Warning: namespace "$NS-payments" does not exist and nothing declares it: creating this is refused`,
	}
	if d := cmp.Diff(want, b.warnings(got.Proposed)); d != "" {
		t.Error(d)
	}
	if got := b.propose(b.declare(config, away), b.declare(config, away)); len(got.Proposed.Notes) != 0 {
		t.Errorf("a change is blamed for what was so before: %v", got.Proposed.Notes)
	}
}

// lists are the lists of all namespaces.
func lists(log []string) int {
	n := 0
	for _, l := range log {
		if l == "GET /api/v1/namespaces" {
			n++
		}
	}
	return n
}

func countKind(set state.Set, kind string) int {
	n := 0
	for _, item := range set.Items() {
		if item.Key.Kind == kind {
			n++
		}
	}
	return n
}

// warned is the text of a note, marked where it is a warning.
func warned(n plan.Note) string {
	if n.Severity == finding.Warning {
		return "Warning: " + n.Text
	}
	return n.Text
}

func notes(b *bench, p plan.Plan) []string {
	var out []string
	for _, n := range p.Notes {
		out = append(out, strings.ReplaceAll(n.Key.String()+": "+warned(n), b.ns, "$NS"))
	}
	return out
}

// Kubernetes puts a ConfigMap into every namespace. A namesake of another kind is a loss.
func TestANamesakeOfTheRootCertificateGoesWithItsNamespace(t *testing.T) {
	const namesake = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kube-root-ca.crt, namespace: space-$NS}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
	b := newBench(t)
	b.reconcile(b.declare("apiVersion: v1\nkind: Namespace\nmetadata: {name: space-$NS}"))
	b.make(namesake, "hand")
	c := b.guarded(b.declare(), "").Changes[0]
	if d := cmp.Diff(loss.Counts{"PersistentVolumeClaim": 1}, c.Before.Losses); d != "" || c.Admitted() {
		t.Errorf("held %q, losses (-want +got):\n%s", c.Hold, d)
	}
}
