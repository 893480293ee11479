package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
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

func TestAllSyncsAreListedPastACacheThatSelects(t *testing.T) {
	cached, direct := reconcilertest.InstalledClient(t), reconcilertest.InstalledClient(t)
	for selector, want := range map[string]client.Reader{"": cached, "stage=canary": direct} {
		watched, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&app{cfg: Config{watched: watched}, direct: direct}).allSyncs(cached); got != want {
			t.Errorf("with the selector %q the other reader is used", selector)
		}
	}
}
