package forecast

import (
	"fmt"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

func TestAWorkloadIsNamedWithWhatBecomesOfIt(t *testing.T) {
	for want, p := range map[string]provision.Placement{
		"a/x":                          {},
		"a/x (and 2 like it)":          {Similar: 2},
		"Deployment a/x (new, 2 pods)": {Workload: "Deployment", New: true, Similar: 1},
		"Deployment a/x (scaled to zero: one pod)":       {Workload: "Deployment", Inactive: true},
		"StatefulSet a/x (new, scaled to zero: one pod)": {Workload: "StatefulSet", New: true, Inactive: true},
		"Job a/x (suspended: 4 pods)":                    {Workload: "Job", Inactive: true, Similar: 3},
		"CronJob a/x (not running now: one pod)":         {Workload: "CronJob", Inactive: true},
		"Deployment a/x (1 pod)":                         {Workload: "Deployment"},
		"Pod a/x (new)":                                  {Workload: "Pod", New: true},
		"Pod a/x":                                        {Workload: "Pod"},
		fmt.Sprintf("%s a/x (1 pod)", markup.Clip(strings.Repeat("A", 50), 40)): {Workload: strings.Repeat("A", 50)},
	} {
		p.Pod = provision.Pod{Namespace: "a", Name: "x"}
		if got := plainText().alike(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
