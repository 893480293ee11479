package prove

import (
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/promises"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
)

// exists returns why no case of the selection can exist, or nothing.
func exists(t *testing.T, selection string) string {
	t.Helper()
	s, err := ParseSelection(selection)
	if err != nil {
		return err.Error()
	}
	if !slices.ContainsFunc(scenarios.All(), func(c scenarios.Scenario) bool { return s.matches(0, c.Name) }) {
		return "no scenario"
	}
	if len(s) > 1 && !slices.ContainsFunc(faultKinds(), func(f faultKind) bool { return s.matches(1, f.name) }) {
		return "no fault"
	}
	return ""
}

func TestThePromisesNameCasesAndControlsThatExist(t *testing.T) {
	for _, table := range promises.All() {
		for _, p := range table.Promises {
			for _, c := range p.Cases {
				if why := exists(t, c); why != "" {
					t.Errorf("%s %s%s: %s selects %s", p.Area, p.Fault, strings.Join(p.Sentences, ", "), c, why)
				}
			}
			if p.Control != "" && !strings.Contains(p.Control, ".") {
				if _, err := controls.Named(p.Control); err != nil {
					t.Errorf("%s %s%s: %v", p.Area, p.Fault, strings.Join(p.Sentences, ", "), err)
				}
			}
		}
	}
	if why := exists(t, "first-apply/no-such-fault"); why == "" {
		t.Error("any fault exists")
	}
	if why := exists(t, "no-such-scenario"); why == "" {
		t.Error("any scenario exists")
	}
}

func TestEachFaultThatIsPromisedToBeOutlivedHasAControl(t *testing.T) {
	if rows := uncontrolled(); len(rows) > 0 {
		t.Errorf("these rows have none: %v", rows)
	}
}
