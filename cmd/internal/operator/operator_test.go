package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/engine/gate"
)

func TestTheLeaseRecordsWhetherTheEngineRuns(t *testing.T) {
	a := &app{cfg: Config{Namespace: "ours"}}
	on, off := a.managerOptions(true).LeaderElectionLabels, a.managerOptions(false).LeaderElectionLabels
	if diff := cmp.Diff(gate.LeaseLabels(true), on); diff != "" {
		t.Errorf("with the engine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gate.LeaseLabels(false), off); diff != "" || cmp.Equal(on, off) {
		t.Errorf("without the engine (-want +got):\n%s", diff)
	}
}
