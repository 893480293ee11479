package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
)

// Hours without a price are in no amount: what is left is a bound, and nothing is no amount at all.
func TestAmountsThatLackNodesWithoutAPriceAreBounds(t *testing.T) {
	for name, c := range map[string]struct {
		of   history.PoolHour
		want string
	}{
		"all have a price":             {history.PoolHour{USD: history.States{Paid: 4, Idle: 1}}, "$4.00 $1.00 25 %"},
		"some have a price":            {history.PoolHour{UnpricedSeconds: 60, USD: history.States{Paid: 4, Idle: 1}}, "≥ $4.00 ≥ $1.00 –"},
		"some have one, approximately": {history.PoolHour{UnpricedSeconds: 60, Approximate: true, USD: history.States{Paid: 4}}, "≥ ~$4.00 – –"},
		"none has a price":             {history.PoolHour{UnpricedSeconds: 60}, "– – –"},
		"less than a cent":             {history.PoolHour{UnpricedSeconds: 60, USD: history.States{Paid: 0.001}}, "– – –"},
		"nothing ran":                  {history.PoolHour{}, "$0 $0 –"},
	} {
		u := usageTotal{c.of}
		if got := strings.Join([]string{u.Paid(), u.Idle(), u.Share()}, " "); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
	h := history.History{Time: ago(time.Second), PoolHours: []history.PoolHour{{NodePool: "gpu", Hour: ago(time.Hour), NodeSeconds: 3600, UnpricedSeconds: 3600}}}
	m := overviewOf(Input{Report: newReport(), History: h})
	if got := m.Day.Paid() + m.PoolRows[1].Today; got != unknown+unknown {
		t.Errorf("of hours without a price the overview has %s", got)
	}
}

// The tile leads to the page of savings, whose total is the same.
func TestTheLastDayIsThatOfThePageOfSavings(t *testing.T) {
	h := history.History{}
	for minutes := range 27 * 60 {
		h.PoolHours = append(h.PoolHours, history.PoolHour{NodePool: "gpu", Hour: ago(time.Duration(minutes) * time.Minute), USD: history.States{Paid: 1}})
	}
	_, day := costsOf(h, now())
	m := savingsModel{}
	m.add(SavingsHours(h, now(), 24*time.Hour))
	if day.Paid() != m.Total.Paid() {
		t.Errorf("the tile has %s, the page %s", day.Paid(), m.Total.Paid())
	}
}

func TestTheCostOfALifeThatWasObservedInPartIsABoundWithItsTime(t *testing.T) {
	ends := history.Lifecycle{Created: ago(40 * time.Hour), Launched: ago(40 * time.Hour), Terminated: ago(time.Hour)}
	lost := ends
	lost.TerminationUnobserved = true
	for name, c := range map[string]struct {
		of   history.NodeClaim
		want string
	}{
		"all of it":           {history.NodeClaim{Lifecycle: ends, USD: new(2.0)}, "$2.00 "},
		"not from its launch": {history.NodeClaim{Lifecycle: ends, USD: new(2.0), AccountedFrom: ago(30 * time.Hour)}, "≥ $2.00 from Nov 25 08:02:11"},
		"not until its end":   {history.NodeClaim{Lifecycle: lost, USD: new(2.0), PriceBasis: history.PriceSpotAtMost}, "≥ ~$2.00 until 13:02:11"},
		"neither":             {history.NodeClaim{Lifecycle: lost, USD: new(2.0), AccountedFrom: ago(2 * time.Hour)}, "≥ $2.00 from 12:02:11 until 13:02:11"},
		"without a price":     {history.NodeClaim{Lifecycle: lost, AccountedFrom: ago(2 * time.Hour)}, " "},
	} {
		r := terminatedRow(c.of, now(), time.Hour).Record
		if got := r.USD + " " + r.Accounted; got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// The history is of the Syncs of one namespace: a Sync of that name in another has none of it.
func TestAPullRequestIsJoinedWithItsOwnNamespaceOnly(t *testing.T) {
	r := get.Report{PullRequests: []get.PullRequest{{Namespace: "team", Sync: "dev", Number: 38, Phase: "Planned"}, {Namespace: "poolwright-system", Sync: "dev", Number: 38, Phase: "Done"}}}
	var got []string
	for _, row := range pullRows(r, night(), "poolwright-system")[:2] {
		got = append(got, row.Phase+" "+row.Commit)
	}
	if diff := cmp.Diff([]string{"Planned ", "Done " + commit}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A later instance can have the address of an earlier one, and the name of its Node.
func TestANodeThatRunsHasTheRecordOfItsOwnNodeClaim(t *testing.T) {
	h := history.History{NodeClaims: []history.NodeClaim{{Name: "new", Node: "ip-1"}, {Name: "old", Node: "ip-1"}}}
	for name, c := range map[string]struct {
		of   []get.Node
		want string
	}{
		"it runs":                {[]get.Node{{Name: "ip-1", NodeClaim: "new"}}, "new"},
		"it is not recorded yet": {[]get.Node{{Name: "ip-1", NodeClaim: "newer"}}, ""},
		"it has no NodeClaim":    {[]get.Node{{Name: "ip-1"}}, ""},
		"it is gone":             {nil, "old"},
	} {
		got := ""
		if n := RecordedNode(get.Report{Nodes: c.of}, h, "ip-1"); n != nil {
			got = n.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestIdleNodesThatAreLeftOutAreCounted(t *testing.T) {
	var h history.History
	for i := range 15 {
		n := history.NodeClaim{Name: fmt.Sprint("gpu-", i), GPUs: 1, GPUSeconds: history.States{Paid: 3600, Idle: float64(3600 + i)}}
		if i < 7 {
			n.USDPerHour = new(1.0)
		}
		h.NodeClaims = append(h.NodeClaims, n)
	}
	d, err := renderer(t).Savings(SavingsInput{Report: newReport(), History: history.History{Time: ago(0), NodeClaims: h.NodeClaims, PoolHours: night().PoolHours}})
	page := rendered(t, d, err)
	for _, want := range []string{"5 more nodes with idle GPUs are not on the page, 5 of them without a price", "history nodes --since 168h", "gpu-14", "gpu-6"} {
		if !strings.Contains(page, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if strings.Contains(page, "gpu-7<") {
		t.Error("the node that was idle for the shortest time without a price is before the others")
	}
}

// Without --since the command prints a day.
func TestThePageOfEventsNamesTheCommandThatPrintsAll(t *testing.T) {
	h := history.History{Time: ago(0)}
	for i := range maxEvents + 1 {
		h.Applies = append(h.Applies, history.Apply{Sync: fmt.Sprint(i), Time: ago(30 * time.Hour)})
	}
	d, err := renderer(t).Events(EventsInput{Report: newReport(), History: h, Window: 7 * 24 * time.Hour})
	if page := rendered(t, d, err); !strings.Contains(page, "poolwright events --since 168h") {
		t.Error("the command prints a day")
	}
}
