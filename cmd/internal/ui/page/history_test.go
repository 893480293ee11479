package page

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/history"
)

// rowNames are the nodes of an overview that are there no more, in their order.
func rowNames(m overviewModel) []string {
	var out []string
	for _, row := range m.NodeRows {
		if row.Record.Gone {
			out = append(out, row.Name)
		}
	}
	return out
}

func TestTheTimelineHasTheNodesThatWereTerminatedInItsWindow(t *testing.T) {
	for window, want := range map[time.Duration][]string{
		time.Hour: nil, 6 * time.Hour: {"ip-10-0-1-9", "gpu-lost"}, 7 * 24 * time.Hour: {"ip-10-0-1-9", "gpu-lost", "gpu-spot", "gpu-ancient"},
	} {
		m := overviewOf(Input{Report: newReport(), History: night(), Window: window})
		if diff := cmp.Diff(want, rowNames(m)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", window, diff)
		}
	}
	// A Node that is being deleted can be there after its instance.
	present := newReport()
	present.Nodes[0].NodeClaim = "gpu-old"
	if diff := cmp.Diff([]string{"gpu-lost"}, rowNames(overviewOf(Input{Report: present, History: night(), Window: 6 * time.Hour}))); diff != "" {
		t.Errorf("with its Node (-want +got):\n%s", diff)
	}
}

func TestARowOfANodeHasItsCausesAtBothEnds(t *testing.T) {
	type causes struct {
		FirstPods                    []string
		More                         int
		USD, Lifetime, State, Reason string
		Revision                     string
	}
	got := map[string]causes{}
	for _, row := range overviewOf(Input{Report: newReport(), History: night(), Window: 6 * time.Hour}).NodeRows {
		got[row.Name] = causes{row.Record.FirstPods, row.Record.MorePods, row.Record.USD, row.Record.Lifetime, row.State, row.Reason, row.Record.Revision}
	}
	want := map[string]causes{
		"ip-10-0-1-2": {FirstPods: []string{"ml/train-3"}, More: 1, USD: "$32.30", State: "Ready", Reason: "DoNotDisrupt"},
		"ip-10-0-1-3": {State: "Ready", Reason: "Empty"},
		"gpu-9fq2p":   {State: "Initializing", Reason: "NoDriver"},
		"web":         {State: "NotReady", Reason: "NodeStatusUnknown"},
		"ip-10-0-1-9": {FirstPods: []string{"ml/train-1"}, USD: "~$0.34", Lifetime: "51m", State: "Terminated", Reason: "Drifted", Revision: "main@e15a32f"},
		"gpu-lost":    {Lifetime: "≥ 9m", State: "Terminated", Reason: "Unknown"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A page of a cluster with many past nodes has the last ones.
func TestTerminatedNodesAreBounded(t *testing.T) {
	var h history.History
	for i := range 1000 {
		h.NodeClaims = append(h.NodeClaims, history.NodeClaim{Name: fmt.Sprintf("gpu-%d", i), Lifecycle: history.Lifecycle{Created: ago(time.Hour), Terminated: ago(time.Duration(i) * time.Second)}})
	}
	m := overviewOf(Input{Report: manyNodes(50, 0, 0), History: h, Window: time.Hour})
	if len(m.NodeRows) != maxNodes || m.NodesLeft != 1050-maxNodes {
		t.Errorf("%d rows, %d are left", len(m.NodeRows), m.NodesLeft)
	}
	if names := rowNames(m); names[0] != "gpu-0" || names[len(names)-1] != fmt.Sprintf("gpu-%d", maxNodes-51) {
		t.Errorf("the rows are from %s to %s", names[0], names[len(names)-1])
	}
	if m := overviewOf(Input{Report: manyNodes(500, 0, 0), History: h, Window: time.Hour}); len(rowNames(m)) > 0 || m.NodesLeft != 1500-maxNodes {
		t.Errorf("%d are there no more, %d are left", len(rowNames(m)), m.NodesLeft)
	}
}

func TestPhasesOfTheHistoryAreInOrderWhateverTheClocksAre(t *testing.T) {
	n := history.NodeClaim{Lifecycle: history.Lifecycle{Created: ago(time.Hour), Launched: ago(2 * time.Hour), Initialized: ago(30 * time.Minute), Deleted: ago(90 * time.Minute)}}
	want := []get.Phase{{State: "Launching", Since: ago(time.Hour)}, {State: "Registering", Since: ago(time.Hour)}, {State: "Ready", Since: ago(30 * time.Minute)}, {State: "Terminating", Since: ago(30 * time.Minute)}}
	if diff := cmp.Diff(want, phasesOf(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsAreTheLatestFirstWithTheirPages(t *testing.T) {
	rows, left := eventRows(night(), now(), 24*time.Hour, 5)
	var got []string
	for _, r := range rows {
		got = append(got, r.Reason+" "+r.Path)
	}
	want := []string{"DriftNotCorrected ", "DriftCorrected /pools/gpu", "RolledOut /pulls/38", "Terminated /nodes/gpu-old", "Disrupted /nodes/gpu-old"}
	if diff := cmp.Diff(want, got); diff != "" || left != 8 {
		t.Errorf("%d are left (-want +got):\n%s", left, diff)
	}
	if rows, left := eventRows(night(), now(), time.Minute, 5); len(rows)+left > 0 {
		t.Errorf("in a minute there are %d", len(rows)+left)
	}
	if rows, _ := eventRows(history.History{}, now(), time.Hour, 5); len(rows) > 0 {
		t.Errorf("without a history there are %d", len(rows))
	}
}

func TestDriftHasTheFieldsTheManagerAndTheResult(t *testing.T) {
	rows, left := driftRows(night(), now())
	want := []driftRow{
		{Time: ago(30 * time.Hour), Clock: "Nov 25 08:02:11", Object: "aws Rule.events/SpotInterruption", Sync: "edge", Changes: []changeRow{{"state", "ENABLED", "DISABLED"}}, Result: "Reported", Class: "warning", Last: "14:01:11"},
		{Time: ago(20 * time.Minute), Clock: "13:42:11", Object: "ConfigMap/ml/settings", Sync: "dev", Deleted: true, Result: "NotCorrected", Class: "warning"},
		{
			Time: ago(100 * time.Minute), Clock: "12:22:11", Object: "NodePool.karpenter.sh/gpu", Sync: "dev", Changes: []changeRow{{`spec.limits["nvidia.com/gpu"]`, "16", "64"}, {"spec.weight", "unset", "9"}, {"a", "unset", "unset"}}, MoreChanges: 1,
			Managers: "kubectl-edit (Update), helm", ManagerTime: "2026-11-26T12:22:11Z", Result: "Corrected", Class: "ready",
		},
	}
	if diff := cmp.Diff(want, rows); diff != "" || left != 0 {
		t.Errorf("%d are left (-want +got):\n%s", left, diff)
	}
	var many history.History
	for i := range 100 {
		many.Drift = append(many.Drift, history.Drift{Object: fmt.Sprint(i), Time: ago(time.Duration(100-i) * time.Minute)})
	}
	if rows, left := driftRows(many, now()); len(rows) != maxDrift || left != 100-maxDrift || rows[0].Object != "99" {
		t.Errorf("%d rows, %d are left", len(rows), left)
	}
}

func TestPullRequestsAreOfTheStatusAndTheHistory(t *testing.T) {
	var got []string
	for _, p := range pullRows(newReport(), night(), "poolwright-system") {
		got = append(got, fmt.Sprintf("%s #%d %s: predicted %s, actual %s", p.Sync, p.Number, p.Phase, p.Predicted, p.Actual))
	}
	want := []string{
		"dev #41 Planned: predicted 3 nodes replaced, actual ",
		"dev #38 Done: predicted 1 node replaced, actual 1 node replaced in 2m",
		"dev #12 Done: predicted 4 nodes replaced, actual 3 nodes replaced, 1 node removed in 60m",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		of   history.PullRequest
		want string
	}{
		"merged": {history.PullRequest{}, "Merged"}, "applied": {history.PullRequest{Applied: ago(0)}, "RollingOut"}, "rolled out": {history.PullRequest{Applied: ago(0), RolledOut: ago(0)}, "Done"},
	} {
		rows := pullRows(get.Report{}, history.History{PullRequests: []history.PullRequest{c.of}}, "")
		if rows[0].Phase != c.want || rows[0].Actual != "" && c.of.Applied.IsZero() {
			t.Errorf("%s: %+v", name, rows[0])
		}
	}
}

// Two Syncs of two repositories can have pull requests of one number.
func TestThePageOfAPullRequestHasThoseOfAllSyncsWithTheirNodes(t *testing.T) {
	h := night()
	h.PullRequests = append(h.PullRequests, history.PullRequest{Sync: "edge", Number: 38, Merged: ago(time.Hour)})
	nodes := map[string][]string{}
	for _, row := range pullRows(newReport(), h, "poolwright-system") {
		if row.Number == 38 {
			nodes[row.Sync] = []string{}
			for _, n := range detailOf(row, h, now()).Nodes {
				nodes[row.Sync] = append(nodes[row.Sync], n.Name)
			}
		}
	}
	if diff := cmp.Diff(map[string][]string{"dev": {"ip-10-0-1-9"}, "edge": {}}, nodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, found, err := renderer(t).Pull(PullInput{Report: newReport(), History: h, Number: 7}); found || err != nil {
		t.Errorf("one that there is not: %v, %v", found, err)
	}
	if got := SelectPull(h, 38); len(got.PullRequests) != 2 || len(got.NodeClaims) != 1 || got.NodeClaims[0].Name != "gpu-old" || len(got.PoolHours) > 0 {
		t.Errorf("the document is %+v", got)
	}
}

func TestThePageOfAPullRequestHasWhatItsReviewerWasShown(t *testing.T) {
	facts := func(number int64, h history.History) (out []string) {
		for _, row := range pullRows(newReport(), h, "poolwright-system") {
			if row.Number != number {
				continue
			}
			d := detailOf(row, h, now())
			for _, f := range d.Facts {
				out = append(out, f.Name+": "+f.Predicted+", "+f.Actual)
			}
			for _, o := range d.Objects {
				out = append(out, fmt.Sprint(o.Name, " deleted ", o.Deleted))
			}
			for _, p := range d.Pools {
				out = append(out, fmt.Sprint(p.Name, " ", p.Nodes))
			}
		}
		return out
	}
	want := []string{
		"Nodes replaced: 3, –", "Nodes removed: 0, –", "Time from the apply to the last node: 20–60m, –", "Change of the cost: +$1.52/h, –",
		"EC2NodeClass/old deleted true", "NodePool/gpu deleted false", "gpu 3",
	}
	if diff := cmp.Diff(want, facts(41, night())); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	want = []string{"Nodes replaced: 1, 1", "Nodes removed: 0, 0", "Time from the apply to the last node: 5m, 2m", "Change of the cost: −$0.10 to +$0.30/h, +$0.29/h"}
	if diff := cmp.Diff(want, facts(38, night())); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	none := night()
	none.PullRequests[1].Actual.Replaced = 0
	if got := facts(38, none)[2]; got != "Time from the apply to the last node: 5m, –" {
		t.Errorf("the time of no node is %s", got)
	}
	// Without a history, the status has what happened.
	want[2] = "Time from the apply to the last node: 5m, –"
	if diff := cmp.Diff(want, facts(38, history.History{})); diff != "" {
		t.Errorf("merged, without a history (-want +got):\n%s", diff)
	}
}

func TestTheLifeOfANodeThatRunsHasItsPhasesOfNow(t *testing.T) {
	h := night()
	// The history was written while the node was registering.
	h.NodeClaims[0].Registered, h.NodeClaims[0].Initialized = metav1.Time{}, metav1.Time{}
	life := lifeOf(h.NodeClaims[0], newReport(), now().Add(-5*time.Minute), now())
	if !strings.HasPrefix(life.Timeline.Text, "Launching 60s, Registering 60s, Initializing 2m, Ready ") || life.Until != "13:57:11" {
		t.Errorf("it is %s, as recorded until %s", life.Timeline.Text, life.Until)
	}
	if life := lifeOf(h.NodeClaims[1], newReport(), now(), now()); life.Until != "" || !strings.HasSuffix(life.Timeline.Text, "Terminating 60s") {
		t.Errorf("of one that was terminated it is %s, as recorded until %s", life.Timeline.Text, life.Until)
	}
}

func TestAChangeOfTheCostThatIsNotKnownIsNoNumber(t *testing.T) {
	cost := func(least, most string) *v1alpha1.HourlyCost { return &v1alpha1.HourlyCost{Min: least, Max: most} }
	for name, c := range map[string]struct {
		before, after *v1alpha1.HourlyCost
		want          string
	}{
		"no prices":                   {nil, nil, "–"},
		"somebody wrote another text": {cost("x", "1"), cost("1", "1"), "–"},
		"the same range":              {cost("1", "2"), cost("1", "2"), "$0/h"},
		"spot prices are not known":   {cost("1", "2"), cost("3", "5"), "+$1.00 to +$4.00/h"},
		"less than a cent":            {cost("1", "1"), cost("0.999", "0.999"), "−<$0.01/h"},
	} {
		if got := actualCost(&v1alpha1.RolloutOutcome{CostBefore: c.before, CostAfter: c.after}); got != c.want {
			t.Errorf("%s: it is %s, not %s", name, got, c.want)
		}
	}
	if predictedCost(nil) != unknown || actualCost(nil) != unknown || minutes(nil) != unknown || predictedCost(&v1alpha1.ReviewedDisruption{}) != unknown {
		t.Error("what was not predicted has a number")
	}
}

func TestWhatAPoolHasCostTodayIsSinceMidnight(t *testing.T) {
	today, day := costsOf(night(), now())
	got := map[string]string{"the last day": day.Paid(), "of it idle": day.Idle()}
	for pool, u := range today {
		got[pool] = u.Paid()
	}
	want := map[string]string{"the last day": "≥ ~$13.11", "of it idle": "≥ ~$0.50", "gpu": "≥ $6.83", "general": "~$0.05"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSavingsAddUpByPoolAndPeriod(t *testing.T) {
	for window, want := range map[time.Duration][]string{
		24 * time.Hour:     {"Nov 25 23:00 $6.23", "Nov 26 11:00 ~$6.68", "Nov 26 14:00 ≥ $0.20", "all ≥ ~$13.11 ≥ ~$0.50 –"},
		7 * 24 * time.Hour: {"Mon Nov 23 $0.40", "Wed Nov 25 $6.23", "Thu Nov 26 ≥ ~$6.88", "all ≥ ~$13.51 ≥ ~$0.90 –"},
	} {
		m := savingsModel{ByHour: window == 24*time.Hour}
		m.add(SavingsHours(night(), now(), window))
		m.chart()
		var got []string
		pools := 0.0
		for _, p := range m.Pools {
			pools += p.USD.Paid
		}
		for i, p := range m.Periods {
			got = append(got, p.Name+" "+p.Paid())
			height := 0
			for _, part := range m.Chart[i].Parts {
				height += part.Height
			}
			if height > chartHeight || m.Chart[i].X+m.Chart[i].Width > chartWidth {
				t.Errorf("%v: a bar leaves the chart: %+v", window, m.Chart[i])
			}
		}
		got = append(got, strings.Join([]string{"all", m.Total.Paid(), m.Total.Idle(), m.Total.Share()}, " "))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", window, diff)
		}
		if diff := pools - m.Total.USD.Paid; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%v: the pools are $%f more than all", window, diff)
		}
	}
}

// An hour that has begun before the window and reaches into it is in it whole, since an hour is not divided.
func TestAnHourAtTheEdgeOfTheWindowIsInItWhole(t *testing.T) {
	h := history.History{}
	for _, before := range []time.Duration{24*time.Hour + 59*time.Minute, 25*time.Hour + time.Minute} {
		h.PoolHours = append(h.PoolHours, history.PoolHour{NodePool: "gpu", Hour: ago(before), USD: history.States{Paid: 1}})
	}
	if got := SavingsHours(h, now(), 24*time.Hour); len(got) != 1 {
		t.Errorf("%d hours", len(got))
	}
}

func TestTheChartHoldsAnyNumberOfPeriods(t *testing.T) {
	for _, n := range []int{0, 1, 2, 62, 400} {
		var m savingsModel
		for i := range n {
			m.Periods = append(m.Periods, periodRow{usageTotal: usageTotal{history.PoolHour{USD: history.States{Paid: float64(i), Idle: 2 * float64(i)}}}})
		}
		m.chart()
		for _, s := range m.Chart {
			if s.Width < 1 || s.X+s.Width > chartWidth {
				t.Errorf("of %d: %+v", n, s)
			}
			for _, p := range s.Parts {
				if p.Y < 0 || p.Height < 0 || p.Y+p.Height > chartHeight {
					t.Errorf("of %d: %+v", n, p)
				}
			}
		}
	}
}

func TestHoursOfPoolsAsCSVHaveEveryAmountAndNoFormula(t *testing.T) {
	of := append(night().PoolHours[3:4], history.PoolHour{NodePool: `=HYPERLINK("x")`, Hour: ago(0)}, history.PoolHour{NodePool: "a,b\n\"c\"", Hour: ago(0), Approximate: true})
	var out strings.Builder
	if err := WriteCSV(&out, of); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"hour", "nodepool", "node_seconds", "gpu_seconds_paid", "gpu_seconds_allocatable", "gpu_seconds_requested", "gpu_seconds_idle", "gpu_seconds_unobserved", "usd_paid", "usd_requested", "usd_idle", "unpriced_node_seconds", "approximate"},
		{"2026-11-26T11:00:00Z", "gpu", "7200", "17000", "16000", "14400", "1600", "0", "6.63", "6", "0.5", "0", "false"},
		{"2026-11-26T14:02:11Z", `'=HYPERLINK("x")`, "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "false"},
		{"2026-11-26T14:02:11Z", `a,b\n"c"`, "0", "0", "0", "0", "0", "0", "0", "0", "0", "0", "true"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANodeIsFoundByItsNameAndThatOfItsNodeClaim(t *testing.T) {
	h := night()
	again := h.NodeClaims[1]
	again.UID = "9"
	h.NodeClaims = append(h.NodeClaims, again)
	for name, want := range map[string]string{"gpu-old": "9", "ip-10-0-1-9.eu-west-1.compute.internal": "9", "gpu-x7k00": "1", "": "", "gpu": ""} {
		got := ""
		if n := RecordedNode(get.Report{}, h, name); n != nil {
			got = n.UID
		}
		if name == "" {
			continue // A node without a name has no page.
		}
		if got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

// What was recorded of the cluster is not changed by a page: all readers have the same.
func TestAPageChangesNothingOfItsInput(t *testing.T) {
	h, r := night(), newReport()
	for range 2 {
		if _, err := renderer(t).Overview(Input{Report: r, History: h}); err != nil {
			t.Fatal(err)
		}
		if _, err := renderer(t).Events(EventsInput{Report: r, History: h}); err != nil {
			t.Fatal(err)
		}
		if _, err := renderer(t).Savings(SavingsInput{Report: r, History: h}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := renderer(t).Pull(PullInput{Report: r, History: h, Number: 38}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(night(), h); diff != "" {
		t.Errorf("the history (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(newReport(), r); diff != "" {
		t.Errorf("the report (-before +after):\n%s", diff)
	}
}

func TestAHistoryThatIsNotRecordedAnyMoreIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		age   time.Duration
		nodes int
		want  bool
	}{
		"just now": {4 * time.Minute, 4, false}, "long ago": {16 * time.Minute, 4, true}, "long ago, and no node runs": {time.Hour, 0, false},
	} {
		r := newReport()
		r.Nodes = r.Nodes[:c.nodes]
		if got := outdatedHistory(Input{Report: r, History: history.History{Time: ago(c.age)}}) != ""; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if got := outdatedHistory(Input{Report: newReport()}); got != "" {
		t.Errorf("without a history: %s", got)
	}
}
