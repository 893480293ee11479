package repairbackoff

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"

	"github.com/poolwright/poolwright/provision/noderepair"
)

// fails is a request that fails for that NodePool.
func fails(pool string) func(string) error {
	return func(name string) error {
		if name != pool {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}, name, errors.New("a policy"))
	}
}

func patchFails(pool string) func(client.Client, string) error {
	return func(_ client.Client, name string) error { return fails(pool)(name) }
}

// annotate has the NodePool changed by another before each of the first patches of it, as many as there are texts. With an empty
// text the annotation of node repair is as it was.
func annotate(t *testing.T, texts ...string) func(client.Client, string) error {
	return func(c client.Client, name string) error {
		if len(texts) == 0 {
			return nil
		}
		p := &karpv1.NodePool{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		p.Annotations = map[string]string{"changed": strconv.Itoa(len(texts))}
		if texts[0] != "" {
			p.Annotations[noderepair.BackoffAnnotation] = texts[0]
		}
		texts = texts[1:]
		return c.Update(t.Context(), p)
	}
}

func TestNoNodeIsRepairedBeforeThatIsRecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		get      func(string) error
		patch    func(client.Client, string) error
		released []string
		recorded string
		reason   string
	}{
		"the NodePool cannot be read":      {get: fails(gpuPool), reason: " (Forbidden)"},
		"it cannot be read without reason": {get: func(string) error { return errors.New("no connection") }},
		"the NodePool cannot be written":   {patch: patchFails(gpuPool), released: []string{gpuPool}, reason: " (Forbidden)"},
		"the annotation was changed in that time": {
			patch: annotate(t, "{}"), released: []string{gpuPool}, recorded: "{}", reason: " (Conflict)",
		},
		"the NodePool is changed before each write": {
			patch: annotate(t, "", ""), released: []string{gpuPool}, reason: " (Conflict)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.get, f.patch = tt.get, tt.patch
			got, err := f.repair(t, f.unhealthy(gpuPool, "a", 5000, 11))
			if err != nil {
				t.Errorf("Karpenter disrupts nothing in the cluster, for %v", err)
			}
			if len(got) > 0 {
				t.Errorf("%v is repaired", got)
			}
			if diff := cmp.Diff(tt.released, f.released); diff != "" {
				t.Errorf("places released (-want +got):\n%s", diff)
			}
			message := `no node of nodepool "gpu" is repaired: its annotation poolwright.dev/node-repair-backoff cannot be read or written` + tt.reason
			if diff := cmp.Diff([]string{"Warning | NodeRepairBlocked | a | " + message, "Warning | NodeRepairBlocked | a | " + message, "Warning | NodeRepairBlocked | gpu | " + message}, f.recorder.lines()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			f.get = nil
			if text := f.annotation(t, gpuPool); text != tt.recorded {
				t.Errorf("recorded %q", text)
			}
		})
	}
}

func TestAPoolThatCannotBeRecordedKeepsNoOther(t *testing.T) {
	for name, tt := range map[string]struct {
		get   func(string) error
		patch func(client.Client, string) error
		// node is that of the pool with the failures.
		node func(*fixture) *disruption.Candidate
	}{
		"its repair cannot be written":   {patch: patchFails(gpuPool), node: func(f *fixture) *disruption.Candidate { return f.unhealthy(gpuPool, "old", 5000, 11) }},
		"its back-off cannot be written": {patch: patchFails(gpuPool), node: func(f *fixture) *disruption.Candidate { return f.unhealthy(gpuPool, "c", 12, 11) }},
		"it cannot be read":              {get: fails(gpuPool), node: func(f *fixture) *disruption.Candidate { return f.unhealthy(gpuPool, "c", 12, 11) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.twoGo(t)
			f.get, f.patch = tt.get, tt.patch
			got, err := f.repair(t, tt.node(f), f.unhealthy(gpuPool, "second", 5000, 11), f.unhealthy("other", "d", 5000, 11))
			if err != nil || !slices.Equal(got, []string{"d"}) {
				t.Errorf("%v is repaired: %v", got, err)
			}
			if slices.Contains(f.released, "other") {
				t.Errorf("places of %v are released", f.released)
			}
			if text := f.annotation(t, "other"); !strings.Contains(text, `"repaired":["d"]`) {
				t.Errorf("the other pool has %q", text)
			}
		})
	}
}

func TestAStatusThatIsWrittenDuringTheSimulationKeepsNoRepair(t *testing.T) {
	f := newFixture()
	f.patch = annotate(t, "")
	if got, err := f.repair(t, f.unhealthy(gpuPool, "a", 5000, 11)); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v is repaired: %v", got, err)
	}
	if text := f.annotation(t, gpuPool); !strings.Contains(text, `"repaired":["a"]`) {
		t.Errorf("recorded %q", text)
	}
	if lines := f.recorder.lines(); len(lines) > 0 || len(f.released) > 0 {
		t.Errorf("events %v, and places released of %v", lines, f.released)
	}
}

// A command is dropped after it was recorded where the engine's lock finds it outdated, and done again by the next pass.
func TestACommandThatIsDroppedIsNoRepairBetweenTwoBackOffs(t *testing.T) {
	f := newFixture()
	f.twoGo(t)
	c, d := f.unhealthy(gpuPool, "c", 12, 11), f.unhealthy(gpuPool, "d", 12, 11)
	if got, err := f.repair(t, c, d); err != nil || len(got) > 0 {
		t.Fatalf("%v is repaired: %v", got, err)
	}
	f.clock.Step(5 * time.Minute)
	for range 3 {
		if got, err := f.repair(t, c, d); err != nil || !slices.Equal(got, []string{"c"}) {
			t.Fatalf("%v is repaired: %v, by %s", got, err, f.annotation(t, gpuPool))
		}
		f.clock.Step(time.Minute)
		// The order of the candidates is Karpenter's, and another one each time.
		if got, err := f.repair(t, d, c); err != nil || !slices.Equal(got, []string{"c"}) {
			t.Fatalf("%v is repaired: %v, by %s", got, err, f.annotation(t, gpuPool))
		}
	}
	if got, err := f.repair(t, d); err != nil || len(got) > 0 || !strings.Contains(f.annotation(t, gpuPool), `"backoffs":2`) {
		t.Errorf("%v is repaired when the first is gone: %v, by %s", got, err, f.annotation(t, gpuPool))
	}
}

func TestANodeThatCannotBeRepairedNowKeepsOnlyReplacements(t *testing.T) {
	f := newFixture()
	f.twoGo(t)
	b := f.unhealthy(gpuPool, "b", 12, 11) // It was counted, and did not go.
	f.inner.noCapacityFor = "b"
	was := f.annotation(t, gpuPool)
	if got, err := f.repair(t, b, f.unhealthy(gpuPool, "c", 12, 11)); err != nil || len(got) > 0 || f.annotation(t, gpuPool) != was {
		t.Errorf("%v is repaired: %v, by %s", got, err, f.annotation(t, gpuPool))
	}
	if got, err := f.repair(t, b, f.unhealthy(gpuPool, "c", 12, 11), f.unhealthy(gpuPool, "old", 5000, 11)); err != nil || !slices.Equal(got, []string{"old"}) {
		t.Errorf("%v is repaired: %v, by %s", got, err, f.annotation(t, gpuPool))
	}
}
