package offline

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/variables"
)

func TestNodeGroupsThatCannotHoldTheControllerAreAWarning(t *testing.T) {
	// One t3.micro holds one replica, and one t3.small both: what is counted decides only for the smaller.
	for name, c := range map[string]struct{ groups, want string }{
		"two of t3.small":                      {"{name: system, desiredSize: 2, instanceTypes: [t3.small]}", ""},
		"two of t4g.medium, which are arm64":   {"{name: system, minSize: 2, instanceTypes: [t4g.medium]}", ""},
		"a taint that is tolerated":            {"{name: system, desiredSize: 2, instanceTypes: [t3.large], taints: [{key: CriticalAddonsOnly, effect: NoSchedule}]}", ""},
		"one that may grow to two":             {"{name: system, desiredSize: 1, maxSize: 3, instanceTypes: [t3.micro]}", "1 of 2 replicas can be scheduled"},
		"one that declares only its largest":   {"{name: system, maxSize: 3, instanceTypes: [t3.nano]}", ""},
		"an autoscaler may reach the largest":  {"{name: system, minSize: 1, maxSize: 3, instanceTypes: [t3.micro]}", ""},
		"an autoscaler that may not":           {"{name: system, minSize: 1, maxSize: 1, instanceTypes: [t3.micro]}", "1 of 2 replicas can be scheduled"},
		"a group without nodes is not counted": {"{name: a, desiredSize: 0, maxSize: 9}, {name: b, desiredSize: 2, instanceTypes: [t3.nano]}", "0 of 2 replicas can be scheduled"},
		"nor one that has none at least":       {"{name: a, minSize: 0, instanceTypes: [t3.large]}, {name: b, desiredSize: 2, instanceTypes: [t3.nano]}", "0 of 2 replicas can be scheduled"},
		"but one that an autoscaler may fill":  {"{name: a, minSize: 0, maxSize: 2, instanceTypes: [t3.large]}, {name: b, desiredSize: 2, instanceTypes: [t3.nano]}", ""},
		"one large node":                       {"{name: system, desiredSize: 1, maxSize: 1, instanceTypes: [m5.large]}", ""},
		"two groups of one node each":          {"{name: a, desiredSize: 1, instanceTypes: [t3.micro]}, {name: b, desiredSize: 1, instanceTypes: [t3.micro]}", ""},
		"two of t3.nano":                       {"{name: system, desiredSize: 2, instanceTypes: [t3.nano]}", "0 of 2 replicas can be scheduled"},
		"the largest of several types decides": {"{name: system, desiredSize: 2, instanceTypes: [t3.nano, t3.small]}", ""},
		"a taint that is not":                  {"{name: system, desiredSize: 2, instanceTypes: [t3.large], taints: [{key: dedicated, value: db, effect: NoSchedule}]}", "taint dedicated=db:NoSchedule"},
		"a size that is not declared":          {"{name: system, instanceTypes: [t3.nano]}", ""},
		"types that are not declared":          {"{name: system, desiredSize: 2}", ""},
		"a type that is not known":             {"{name: system, desiredSize: 2, instanceTypes: [x9.nano]}", ""},
		"one group that is not known":          {"{name: a, desiredSize: 2, instanceTypes: [t3.nano]}, {name: b}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := Lint(t.Context(), folder(t, "a.yaml", reconcilertest.ClusterFile("dev", "  managedNodeGroups: ["+c.groups+"]\n")), variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			if len(linted.Problems) > 0 {
				t.Errorf("problems: %v", linted.Problems)
			}
			if c.want == "" {
				if len(linted.Warnings) > 0 {
					t.Errorf("warnings: %v", linted.Warnings)
				}
				return
			}
			if len(linted.Warnings) != 1 {
				t.Fatalf("warnings: %v", linted.Warnings)
			}
			got := linted.Warnings[0]
			if !strings.HasPrefix(got.String(), "a.yaml:8: Cluster.poolwright.dev/dev: spec.managedNodeGroups: the controller does not fit") || !strings.Contains(got.Message, c.want) {
				t.Errorf("the warning is %s", got)
			}
		})
	}
}
