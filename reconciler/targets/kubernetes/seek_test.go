package kubernetes_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// giveUp plans as for a Sync that is deleted with its things.
func (b *bench) giveUp() (plan.Plan, error) {
	observed, err := b.target.Observe(b.Context(), state.Set{})
	return plan.Compute(state.Set{}, observed), err
}

func TestNothingIsGivenUpThatCannotBeRead(t *testing.T) {
	everything := []string{"delete ConfigMap/$NS/settings", "delete Secret/$NS/token", "delete Deployment.apps/$NS/web"}
	tests := []struct {
		name string
		// lost reports that the inventory is gone.
		lost  bool
		code  int
		fails bool
		finds []string
	}{
		{"a recorded kind that may not be read is an error", false, 403, true, nil},
		{"a recorded kind that fails is an error", false, 500, true, nil},
		{"everything that is recorded is found", false, 0, false, everything},
		{"without inventory, a kind that fails is an error", true, 500, true, nil},
		{"without inventory, a kind that may not be read cannot be ours", true, 403, false, []string{everything[0], everything[2]}},
		{"without inventory, everything is found by its label", true, 0, false, everything},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(web, config, secret))
			if tt.lost {
				for _, s := range b.shards() {
					if err := b.hand.Delete(t.Context(), &s); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.restart()
			b.wire.failing(func(r *http.Request) (*http.Response, error) {
				if tt.code != 0 && (strings.HasSuffix(r.URL.Path, "/secrets") || strings.HasSuffix(r.URL.Path, "/token")) {
					return response(r, tt.code, map[int]string{403: "Forbidden", 500: "InternalError"}[tt.code], "no"), nil
				}
				return nil, nil
			})
			for range 2 { // The second time it is no wiser.
				p, err := b.giveUp()
				if (err != nil) != tt.fails {
					t.Fatalf("Observe returned %v", err)
				}
				if d := cmp.Diff(tt.finds, b.lines(p)); err == nil && d != "" {
					t.Error(d)
				}
			}
			b.wire.failing(nil)
			p, err := b.giveUp()
			if d := cmp.Diff(everything, b.lines(p)); err != nil || d != "" {
				t.Error(err, d)
			}
		})
	}
}

func TestWhatIsOfAKindThatIsNotServedKeepsItsRecord(t *testing.T) {
	b := newBench(t)
	definition := strings.NewReplacer("widgets", "gadgets", "Widget", "Gadget", "widget", "gadget", "example.com", b.ns+".example.com").Replace(widgets)
	declared := b.declare(definition, strings.NewReplacer("$GROUP", b.ns+".example.com").Replace(`
apiVersion: $GROUP/v1
kind: Gadget
metadata: {name: g, namespace: $NS}
`))
	b.reconcile(declared)
	serve := func(yes bool) {
		b.TB.Helper()
		b.edit("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gadgets."+b.ns+".example.com", func(o map[string]any) {
			o["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["served"] = yes
		})
	}
	serve(false)
	left := b.want(b.declare(definition))
	eventually(t, func() bool { // The API server follows a little later.
		observed, err := b.target.Observe(t.Context(), left)
		return err == nil && observed.Len() == 1
	})
	if _, err := b.giveUp(); err == nil || !strings.Contains(err.Error(), "Gadget") {
		t.Errorf("giving up what is not served: %v", err)
	}
	serve(true)
	eventually(t, func() bool {
		observed, err := b.target.Observe(t.Context(), left)
		return err == nil && slices.Contains(b.lines(plan.Compute(left, observed)), "delete Gadget.$NS.example.com/$NS/g")
	})
}

// A desired object that may not be read counts as different, with the reason.
func TestADesiredObjectThatMayNotBeReadCarriesTheReason(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config, secret)
	b.reconcile(declared)
	b.restart()
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/secrets") || strings.HasSuffix(r.URL.Path, "/token") {
			return response(r, 403, "Forbidden", "no"), nil
		}
		return nil, nil
	})
	p := b.plan(declared)
	if len(p.Changes) != 1 || p.Changes[0].Key.Kind != "Secret" || !strings.Contains(p.Changes[0].Before.Unreadable, "no") {
		t.Errorf("%+v", p.Changes)
	}
}
