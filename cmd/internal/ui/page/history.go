package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/poolwright/poolwright/cmd/internal/get"
	past "github.com/poolwright/poolwright/cmd/internal/history"
	"github.com/poolwright/poolwright/reconciler/history"
)

const (
	// maxEvents is how many events the page of them has, and maxRecentEvents how many the overview.
	maxEvents       = 500
	maxRecentEvents = 15
	// driftWindow is how far back drift is on the overview, and maxDrift how many rows of it there are.
	driftWindow = 7 * 24 * time.Hour
	maxDrift    = 20
	// maxChanges is how many fields a row of drift has.
	maxChanges = 3
	// maxFirstPods is how many of the first pods of a node are in its row.
	maxFirstPods = 1
)

// terminatedNodes are the rows of at most so many nodes that were terminated within the window and of which the report has nothing, the
// latest first, and how many more there are.
func terminatedNodes(in Input, window time.Duration, most int) (rows []nodeRow, left int) {
	now := in.Report.Time.Time
	present := map[string]bool{}
	for _, n := range in.Report.Nodes {
		present[n.NodeClaim] = true
	}
	gone := endedWithin(in.History, now, window)
	gone = slices.DeleteFunc(gone, func(n history.NodeClaim) bool { return present[n.Name] })
	slices.SortStableFunc(gone, func(a, b history.NodeClaim) int { return b.Terminated.Compare(a.Terminated.Time) })
	listed := gone[:min(len(gone), max(0, most))]
	for _, n := range listed {
		rows = append(rows, terminatedRow(n, now, window))
	}
	return rows, len(gone) - len(listed)
}

// endedWithin are the nodes whose instance was terminated within a time before now.
func endedWithin(h history.History, now time.Time, window time.Duration) []history.NodeClaim {
	var out []history.NodeClaim
	for _, n := range h.NodeClaims {
		if !n.Terminated.IsZero() && now.Sub(n.Terminated.Time) < window {
			out = append(out, n)
		}
	}
	return out
}

// terminatedRow is the row of a node that was terminated.
func terminatedRow(n history.NodeClaim, now time.Time, window time.Duration) nodeRow {
	row := nodeRowOf(get.Node{
		Name: cmp.Or(n.Node, n.Name), NodeClaim: n.Name, NodePool: n.NodePool, InstanceType: n.InstanceType, CapacityType: n.CapacityType, Zone: n.Zone,
		Created: n.Created, State: "Terminated", Reason: string(n.Reason), Message: n.Message, Phases: phasesOf(n),
	}.Priced(n), n.Terminated.Time, now, window)
	row.GPUs.Allocatable = &n.GPUs
	row.Record = recordOf(n, now)
	row.Record.Gone, row.Record.Lifetime, row.Record.Ended = !n.Terminated.IsZero(), lifetime(n, now), n.Terminated
	return row
}

// recordedLife is what the history has of a node.
type recordedLife struct {
	// Gone is whether it is there no more, Ended since when, and Lifetime how long it ran.
	Gone     bool
	Ended    metav1.Time
	Lifetime string
	// FirstPods are the first pods for which it was launched, of which there are MorePods more.
	FirstPods []string
	MorePods  int
	// USD is what it has cost, and Revision what had it replaced; both are empty where that is not known.
	USD, Revision string
	// Accounted is from when or until when USD is, where that is not all of its life; else empty.
	Accounted string
}

func recordOf(n history.NodeClaim, now time.Time) recordedLife {
	var r recordedLife
	for _, pod := range n.Pods[:min(len(n.Pods), maxFirstPods)] {
		r.FirstPods = append(r.FirstPods, clean(pod))
	}
	r.MorePods = len(n.Pods) - len(r.FirstPods)
	r.USD, r.Accounted = spent(n, now)
	if n.Revision != "" {
		r.Revision = short(n.Revision)
	}
	return r
}

// spent is what a node has cost, and the time for which that is where it is not all of its life; empty where it is not known.
func spent(n history.NodeClaim, now time.Time) (usd, accounted string) {
	if n.USD == nil {
		return "", ""
	}
	var times []string
	if !n.AccountedFrom.IsZero() {
		times = append(times, "from "+clock(n.AccountedFrom.Time, now))
	}
	if n.TerminationUnobserved {
		times = append(times, "until "+clock(n.Terminated.Time, now))
	}
	return bound(n) + dollars(*n.USD, n.PriceBasis.Approximate()), strings.Join(times, " ")
}

// bound is before amounts of a node of whose life a part was not observed: they are lower bounds.
func bound(n history.NodeClaim) string {
	if n.TerminationUnobserved || !n.AccountedFrom.IsZero() {
		return atLeast
	}
	return ""
}

// dollars is an amount, with ~ where it is approximate.
func dollars(usd float64, approximate bool) string {
	if approximate && usd > 0 {
		return "~" + withSign(amount(usd))
	}
	return withSign(amount(usd))
}

// lifetime is how long the instance of a node ran, or has run until now.
func lifetime(n history.NodeClaim, now time.Time) string {
	end := now
	if !n.Terminated.IsZero() {
		end = n.Terminated.Time
	}
	text := duration.HumanDuration(max(0, end.Sub(n.Launched.Time)))
	if n.TerminationUnobserved {
		return atLeast + text
	}
	return text
}

// phasesOf are those of a node that the history has, in the order of time.
func phasesOf(n history.NodeClaim) []get.Phase {
	out := []get.Phase{{State: "Launching", Since: n.Created}}
	for _, p := range []get.Phase{{State: "Registering", Since: n.Launched}, {State: "Initializing", Since: n.Registered}, {State: "Ready", Since: n.Initialized}, {State: "Terminating", Since: n.Deleted}} {
		if p.Since.IsZero() {
			continue
		}
		// A time of another clock may be before the one that it follows.
		if last := out[len(out)-1].Since; p.Since.Before(&last) {
			p.Since = last
		}
		out = append(out, p)
	}
	return out
}

// eventRow is something that happened.
type eventRow struct {
	Time    metav1.Time
	Clock   string
	Warning bool
	Reason  string
	Object  string
	// Path is the page of the object, or of the pull request; empty where there is none.
	Path    string
	Message string
}

// eventRows are the events of a time until now, the latest first, at most so many, and how many more there are.
func eventRows(h history.History, now time.Time, window time.Duration, most int) (rows []eventRow, left int) {
	from := now.Add(-window)
	events := slices.DeleteFunc(past.EventsOf(past.Since(h, from, "")), func(e past.Event) bool { return e.Time.Time.Before(from) })
	slices.Reverse(events)
	listed := events[:min(len(events), most)]
	for _, e := range listed {
		rows = append(rows, eventRow{
			Time: e.Time, Clock: clock(e.Time.Time, now), Warning: e.Type == "Warning", Reason: clean(string(e.Reason)), Object: clean(e.Object), Path: eventPath(e), Message: clean(e.Message),
		})
	}
	return rows, len(events) - len(listed)
}

// eventPath is the page about what an event is about.
func eventPath(e past.Event) string {
	switch kind, name, _ := strings.Cut(e.Object, "/"); {
	case e.PullRequest > 0:
		return pullPath(e.PullRequest)
	case kind == "NodeClaim":
		return pathOf("nodes", name)
	case kind == "NodePool.karpenter.sh":
		return pathOf("pools", name)
	}
	return ""
}

// pullPath is the page of a pull request.
func pullPath(number int64) string { return fmt.Sprintf("/pulls/%d", number) }

// driftRow is drift of the past.
type driftRow struct {
	Time          metav1.Time
	Clock         string
	Object, Sync  string
	Deleted       bool
	Changes       []changeRow
	MoreChanges   int
	Managers      string
	ManagerTime   string
	Result, Class string
	// Last is when it was found last; empty where that was once.
	Last string
}

// changeRow is how one field differed: Declared by the repository, and Live.
type changeRow struct{ Path, Declared, Live string }

// driftRows are those of the last days, the latest first, at most maxDrift, and how many more there are.
func driftRows(h history.History, now time.Time) (rows []driftRow, left int) {
	found := past.Since(history.History{Drift: h.Drift}, now.Add(-driftWindow), "").Drift
	latest := func(d history.Drift) time.Time {
		if d.Last.After(d.Time.Time) {
			return d.Last.Time
		}
		return d.Time.Time
	}
	slices.SortStableFunc(found, func(a, b history.Drift) int { return latest(b).Compare(latest(a)) })
	listed := found[:min(len(found), maxDrift)]
	for _, d := range listed {
		rows = append(rows, driftRowOf(d, now))
	}
	return rows, len(found) - len(listed)
}

func driftRowOf(d history.Drift, now time.Time) driftRow {
	row := driftRow{Time: d.Time, Clock: clock(d.Time.Time, now), Object: clean(d.Object), Sync: clean(d.Sync), Deleted: d.Deleted, Result: clean(string(d.Result)), Class: "warning", Last: clock(d.Last.Time, now)}
	if d.Result == history.DriftCorrected {
		row.Class = "ready"
	}
	for _, f := range d.Fields[:min(len(d.Fields), maxChanges)] {
		row.Changes = append(row.Changes, changeRow{clean(f.Path), cmp.Or(clean(f.After), "unset"), cmp.Or(clean(f.Before), "unset")})
	}
	row.MoreChanges = len(d.Fields) - len(row.Changes)
	var names []string
	for _, m := range d.Managers {
		name := clean(m.Name)
		if m.Operation != "" {
			name += " (" + clean(m.Operation) + ")"
		}
		names = append(names, name)
	}
	row.Managers = strings.Join(names, ", ")
	if len(d.Managers) > 0 {
		row.ManagerTime = clean(d.Managers[0].Time)
	}
	return row
}

// EventsInput is what the page of events is made of.
type EventsInput struct {
	Report      get.Report
	History     history.History
	Interrupted *Interruption
	// Window is how much of the past it has, one of Windows. Zero is a day.
	Window time.Duration
}

// eventsModel is what the page of events is rendered from.
type eventsModel struct {
	statusModel
	Interrupted string
	Rows        []eventRow
	Left        int
	Window      time.Duration
	Windows     []time.Duration
	// Recorded is until when the history is; empty without one.
	Recorded string
}

// Events renders the page of what happened.
func (r *Renderer) Events(in EventsInput) (Document, error) {
	now := in.Report.Time.Time
	m := eventsModel{statusModel: statusOf(in.Report, in.Interrupted), Interrupted: interruptionText(in.Interrupted, now), Window: cmp.Or(in.Window, 24*time.Hour), Windows: Windows(), Recorded: clock(in.History.Time.Time, now)}
	m.Rows, m.Left = eventRows(in.History, now, m.Window, maxEvents)
	m.Title = m.titled("What happened")
	return r.render(Document{Title: m.Title, Updates: "/updates/events" + windowQuery(in.Window), Data: "/api/v1/events" + windowQuery(in.Window)}, m, "status", "events")
}
