package scenarios

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/releases"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

func TestAScenarioHasWhatARunNeeds(t *testing.T) {
	names := map[string]bool{}
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			// Cases are selected as SCENARIO/FAULT/POINT.
			if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(s.Name) || names[s.Name] {
				t.Error("its name cannot select it")
			}
			names[s.Name] = true
			if !strings.HasSuffix(s.Summary, ".") || strings.Contains(s.Summary, "\n") {
				t.Errorf("its summary is %q", s.Summary)
			}
			if s.Prepare == nil || s.Act == nil {
				t.Error("nothing is prepared, or nothing happens")
			}
			if s.Account != nil && !s.Exclusive && s.Wires != nil && !slices.Contains(s.Wires, trace.AWS) {
				t.Error("it has an account and no fault of AWS")
			}
			if len(s.Faults) != len(slices.Compact(slices.Sorted(slices.Values(s.Faults)))) {
				t.Errorf("a fault is there twice: %v", s.Faults)
			}
		})
	}
}

func TestEveryReleaseIsUpgraded(t *testing.T) {
	var faulty int
	for _, name := range releases.Names() {
		i := slices.IndexFunc(All(), func(s Scenario) bool { return s.Name == "upgrade-from-"+name })
		if i < 0 {
			t.Errorf("no scenario upgrades from %s", name)
			continue
		}
		s := All()[i]
		if !s.Exclusive || s.Meanwhile == nil || s.Converge == nil {
			t.Errorf("the upgrade from %s shares the definitions with others, or has no commit while no process runs", name)
		}
		if s.Faults == nil {
			faulty++
		}
	}
	if faulty != 1 {
		t.Errorf("%d upgrades meet every fault: the first is enough", faulty)
	}
}
