package aws

import (
	"context"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// While an older Cluster is live, what another one asks of AWS is compared and nothing else.
func TestAClusterThatIsNotTheOldestChangesNothingInAWS(t *testing.T) {
	oldest := ""
	b := newBench(t, nil, func(c *Config) {
		c.Live = func(context.Context) (Status, error) { return Status{Cluster: oldest}, nil }
	})
	declared := b.declare(queued(deleting))
	other := b.declare(func(s *v1alpha1.ClusterSpec) {
		queued(deleting)(s)
		s.InterruptionQueue.Name = "another"
	})
	nobody := b.declare(nothing)

	oldest = "older"
	compared := func(name string, declared state.Set, actions ...plan.Action) {
		t.Helper()
		p := b.plan(declared)
		found := map[plan.Action]bool{}
		for _, c := range p.Changes {
			found[c.Action] = true
			if !c.Standing() {
				t.Errorf("%s: %s of %s is not only compared", name, c.Action, c.Key)
			}
		}
		for _, a := range actions {
			if !found[a] {
				t.Errorf("%s: nothing to %s in %s", name, a, show(p))
			}
		}
	}
	compared("nothing is there yet", declared, plan.Create)
	oldest = ""
	b.reconcile(declared)
	records := len(b.world.store.Records())
	for _, restarted := range []bool{false, true} {
		if restarted {
			b.restart()
		}
		oldest = "older"
		before := len(b.writes())
		compared("a renamed queue", other, plan.Create, plan.Delete)
		compared("a part that left", nobody, plan.Delete)
		if n := len(b.writes()) - before; n != 0 {
			t.Errorf("%d writes", n)
		}
		if n := len(b.world.store.Records()); n != records {
			t.Errorf("%d records, want %d", n, records)
		}
	}
	// The old one is deleted, and this one takes over.
	oldest = "cluster"
	b.reconcile(other)
	b.settled(other)
}
