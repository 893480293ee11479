package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
)

// withoutText compares conditions by their values.
var withoutText = cmpopts.IgnoreFields(syncCondition{}, "Text")

func TestEachSyncOfWhichDriftIsNotKnownHasItsReason(t *testing.T) {
	transition := ago(time.Minute)
	for name, c := range map[string]struct {
		sync get.Sync
		want []syncCondition
	}{
		"one in which nothing has drifted":               {get.Sync{Drifted: "False", DriftReason: "InSync"}, nil},
		"one in which something has drifted":             {get.Sync{Drifted: "True", DriftReason: "Reported"}, nil},
		"a suspended one":                                {get.Sync{Drifted: "Unknown", DriftReason: "Suspended", DriftTransition: &transition, Suspended: true}, []syncCondition{{Sync: "dev", Reason: "Suspended", Since: "14:01:11"}}},
		"a suspended one whose condition is from before": {get.Sync{Drifted: "False", DriftReason: "InSync", DriftTransition: &transition, Suspended: true}, []syncCondition{{Sync: "dev", Reason: "Suspended"}}},
		"one that has no condition":                      {get.Sync{Drifted: "Unknown"}, []syncCondition{{Sync: "dev", Reason: notCompared}}},
		"one without a revision":                         {get.Sync{Drifted: "Unknown", DriftReason: "NotCompared", DriftTransition: &transition}, []syncCondition{{Sync: "dev", Reason: "NotCompared", Since: "14:01:11"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.sync.Name = "dev"
			r := get.Report{Time: metav1.NewTime(now()), Syncs: []get.Sync{c.sync}}
			got, more := driftConditions(r)
			if diff := cmp.Diff(c.want, got, withoutText); diff != "" || more != 0 {
				t.Errorf("%d more, (-want +got):\n%s", more, diff)
			}
			if inSync := (overviewModel{Report: r}).InSync(); inSync != (name == "one in which nothing has drifted") {
				t.Errorf("whether everything is in sync is %v", inSync)
			}
		})
	}
}

func TestEachSyncHasWhetherItsPullRequestsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		sync   get.Sync
		reason string
	}{
		"without pull requests":   {get.Sync{}, notObserved},
		"not read yet":            {get.Sync{PullRequests: &get.PullRequestsState{}}, notObserved},
		"none is open":            {get.Sync{PullRequests: &get.PullRequestsState{Open: new(0)}}, ""},
		"some are open":           {get.Sync{PullRequests: &get.PullRequestsState{Open: new(2)}}, ""},
		"a forge that fails":      {get.Sync{PullRequests: &get.PullRequestsState{Open: new(2), Reason: "RateLimited"}}, "RateLimited"},
		"a suspended one":         {get.Sync{Suspended: true, PullRequests: &get.PullRequestsState{Open: new(0)}}, "Suspended"},
		"a suspended one, failed": {get.Sync{Suspended: true, PullRequests: &get.PullRequestsState{Reason: "RateLimited"}}, "Suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			c.sync.Name = "dev"
			if diff := cmp.Diff(syncCondition{Sync: "dev", Reason: c.reason}, pullCondition(c.sync), withoutText); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestALinkOutOfThePagesIsToAPullRequestOnly(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		"https://github.com/example/x/pull/41":   "https://github.com/example/x/pull/41",
		"http://127.0.0.1:3000/a/x/pulls/41":     "http://127.0.0.1:3000/a/x/pulls/41",
		"https://github.com/example/x/pull/4":    "",
		"https://github.com/example/x/pull/41#a": "",
		"https://a:b@github.com/example/pull/41": "",
		"javascript:alert(1)//41":                "",
		"//example.com/41":                       "",
		"/pulls/41":                              "",
		"https:///pulls/41":                      "",
		"https://git.example/\u202e/41":          "",
	} {
		if got := forgeURL(text, 41); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}

func TestNotesOfManySyncsAreBounded(t *testing.T) {
	var r get.Report
	for i := range 40 {
		r.Syncs = append(r.Syncs, get.Sync{Name: fmt.Sprint("sync-", i)})
	}
	pulls, morePulls := pullConditions(r)
	drift, moreDrift := driftConditions(r)
	if diff := cmp.Diff([]int{maxConditions, 40 - maxConditions, maxConditions, 40 - maxConditions}, []int{len(pulls), morePulls, len(drift), moreDrift}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
