package kubernetes_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// The API server answers with code 500 to an object that does not fit its schema; that the
// repository has to be mended is known by its text. This asks a real one, whose text may change.
func TestTheAPIServersResponseToAnObjectThatDoesNotFitItsSchemaIsClassified(t *testing.T) {
	for name, misspelled := range map[string]string{
		"a built-in kind": strings.Replace(web, "replicas:", "replikas:", 1),
		"a Secret":        strings.Replace("apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: $NS}\nstringData: {a: hunter2}\n", "stringData:", "stringDate:", 1),
		"a custom kind":   class + "  tagz: {a: b}\n",
		"another type":    strings.Replace(web, "replicas: 2", "replicas: {a: b}", 1),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			errs := slices.Collect(maps.Values(b.apply(b.plan(b.declare(misspelled)))))
			if len(errs) != 1 || !errors.Is(errs[0], targets.ErrSchema) {
				t.Fatalf("refused with %v", errs)
			}
			if class, reason, _ := state.Classify(errs[0]); class != state.Stalled || reason != "Invalid" {
				t.Errorf("%s, %s: %v", class, reason, errs[0])
			}
			if strings.Contains(errs[0].Error(), "hunter2") {
				t.Errorf("a Secret's value is in %v", errs[0])
			}
		})
	}
}
