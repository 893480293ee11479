package drift

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func driftOf(name string) plan.Change {
	return plan.Change{Key: state.Key{Kind: "ConfigMap", Namespace: "default", Name: name}, Drift: true}
}

func TestObjectsThatStartOverAreNotKept(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	f := newFlaps(clk)
	for range flapLimit {
		f.Corrected(driftOf("paused"))
	}
	for i := range 1000 {
		f.Corrected(driftOf(strconv.Itoa(i)))
	}
	clk.SetTime(clk.Now().Add(flapReset))
	f.Corrected(driftOf("recent"))
	if left := len(f.of); left != 2 { // One is left alone until a minute later, so it starts over after the others.
		t.Errorf("%d objects are kept", left)
	}
	clk.SetTime(clk.Now().Add(2 * flapReset))
	f.Corrected(driftOf("last"))
	if left := len(f.of); left != 1 {
		t.Errorf("%d objects are kept when all others start over", left)
	}
}

// The alert DriftRecurs is tested in .ci/monitoring on these moments: its threshold is below what they lead to.
func TestAnObjectThatIsAlwaysChangedIsCorrectedEveryHalfHourInTheEnd(t *testing.T) {
	start := time.Now()
	clk := clocktesting.NewFakePassiveClock(start)
	f := newFlaps(clk)
	var minutes []int
	for clk.Now().Sub(start) <= 2*time.Hour {
		if f.Allow(driftOf("fought-over"), nil) == nil {
			f.Corrected(driftOf("fought-over"))
			minutes = append(minutes, int(clk.Now().Sub(start).Minutes()))
		}
		clk.SetTime(clk.Now().Add(time.Second))
	}
	if d := cmp.Diff([]int{0, 0, 0, 1, 3, 7, 15, 31, 61, 91}, minutes); d != "" {
		t.Errorf("corrected in the minutes (-want +got):\n%s", d)
	}
}
