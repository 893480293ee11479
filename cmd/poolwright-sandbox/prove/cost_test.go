package prove

import (
	"strings"
	"testing"
)

func TestTheCostsOfFaultsAreReportedByScenario(t *testing.T) {
	launch := point{Wire: "aws", Verb: "CreateFleet", Kind: "ec2"}
	none := func(scenario string, cost float64) Result {
		return Result{Case: proveCase{Scenario: scenario, Fault: noFault}, Cost: cost}
	}
	var got strings.Builder
	writeCosts(&got, Report{Results: []Result{
		none("first-apply", 0), none("scale-down", 0.02), none("scale-up", 0.0088),
		{Case: proveCase{"scale-up", "drop", launch}, Cost: 0.0088},
		{Case: proveCase{"scale-up", "kill-after", launch}, Cost: 0.0264},
	}})
	want := "EC2 would have billed $0.0200 for scale-down.\n" +
		"EC2 would have billed $0.0088 for scale-up, and at most $0.0176 more with a fault: scale-up/kill-after/aws CreateFleet ec2.\n"
	if got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}
