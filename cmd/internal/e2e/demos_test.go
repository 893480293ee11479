package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// demoBound is how long a demo takes at most where its programs are built and nothing else runs.
const demoBound = 90 * time.Second

// The demos of all set-ups. Their time is compared only here: make test-long runs nothing beside them.
func TestTheDemosOfAllSetUps(t *testing.T) {
	onlyLong(t)
	for _, c := range []struct {
		name   string
		events []string // what only this set-up has, in their order
	}{
		{"altanova", []string{"comment.created", "comment.edited", "comment.concluded"}},
		{"timeslicing", []string{"gpu.shared"}},
		{"piksel", []string{"node.kept", "nodeclaim.deleted"}},
		{"pingvas", []string{"api.followed", "commit.applied", "spot.interrupted", "node.drained"}},
		{"baseten", []string{"nodegroup.ready", "api.followed", "nodegroup.untouched"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := demo(t, "--deadline=3m", "--setup="+c.name)
			if run.exit != 0 {
				t.Fatalf("exit %d\n%s\n%s", run.exit, run.stdout, run.stderr)
			}
			events := run.events(t)
			var own []string
			for _, one := range events {
				if slices.Contains(c.events, one.Event) {
					own = append(own, one.Event)
				}
			}
			if diff := cmp.Diff(c.events, own); diff != "" {
				t.Errorf("the events of its own (-want +got):\n%s", diff)
			}
			sums, document := events[len(events)-1].sums(t)
			if len(document) == 0 || sums["gpuNodes"] != 0 || sums["othersTouched"] != 0 {
				t.Errorf("the sums are %v, the document's %v", sums, document)
			}
			took := run.ended.Sub(run.began)
			t.Logf("the demo took %s: %v, the document has %v", took.Round(time.Second), sums, document)
			if took > demoBound {
				t.Errorf("the demo took %s, and takes %s at most where nothing else runs", took.Round(time.Second), demoBound)
			}
		})
	}
}
