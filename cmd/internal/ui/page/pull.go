package page

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/poolwright/poolwright/cmd/internal/get"
	past "github.com/poolwright/poolwright/cmd/internal/history"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/history"
)

const (
	// maxPulls is how many pull requests are on the overview, the newest of each Sync.
	maxPulls = 20
	// maxPullNodes is how many nodes that a pull request replaced are on its page.
	maxPullNodes = 100
)

// pullRow is a pull request of a Sync.
type pullRow struct {
	Number int64
	Path   string
	// URL is its page at the forge; empty where that is not known.
	URL                   string
	Sync                  string
	Phase, Headline       string
	Head, Commit          string
	Merged                metav1.Time
	Applied, RolledOut    metav1.Time
	Predicted, Actual     string
	PredictedOf, ActualOf *history.NodeChanges
	// Reviewed and Rollout are what the status has of it; nil where it has nothing.
	Reviewed *v1alpha1.ReviewedDisruption
	Rollout  *v1alpha1.RolloutOutcome
}

// pullRows are those of all Syncs, as their status and the history have them, the newest of each Sync first.
// The history is of the Syncs of one namespace.
func pullRows(r get.Report, h history.History, namespace string) []pullRow {
	type key struct {
		sync   string
		number int64
	}
	recorded := map[key]history.PullRequest{}
	for _, p := range h.PullRequests {
		recorded[key{p.Sync, p.Number}] = p
	}
	var out []pullRow
	for _, p := range r.PullRequests {
		row := pullRow{Number: p.Number, Path: pullPath(p.Number), URL: forgeURL(p.URL, p.Number), Sync: clean(p.Sync), Phase: clean(p.Phase), Headline: clean(p.Headline), Head: short(p.Head), Reviewed: p.Reviewed, Rollout: p.Rollout}
		if p.NodesReplaced != nil && p.NodesRemoved != nil {
			row.PredictedOf = &history.NodeChanges{Replaced: *p.NodesReplaced, Removed: *p.NodesRemoved}
		}
		if p.Merged != nil {
			row.Merged = *p.Merged
		}
		at := key{p.Sync, p.Number}
		if of, found := recorded[at]; found && p.Namespace == namespace {
			row.record(of)
			delete(recorded, at)
		}
		out = append(out, row.written())
	}
	// The status of a Sync has the last ones only.
	for _, p := range slices.Backward(h.PullRequests) {
		if _, left := recorded[key{p.Sync, p.Number}]; left {
			row := pullRow{Number: p.Number, Path: pullPath(p.Number), Sync: clean(p.Sync), Phase: phaseOf(p), Headline: clean(p.Headline)}
			row.record(p)
			out = append(out, row.written())
		}
	}
	return out
}

// forgeURL is the page of a pull request at the forge; empty where the text is no such address: it is the only link that leads out of
// the pages.
func forgeURL(text string, number int64) string {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil || clean(text) != text || !strings.HasSuffix(text, fmt.Sprintf("/%d", number)) {
		return ""
	}
	return at.String()
}

// phaseOf is the phase of a pull request that is in the history only.
func phaseOf(p history.PullRequest) string {
	switch {
	case !p.RolledOut.IsZero():
		return "Done"
	case !p.Applied.IsZero():
		return "RollingOut"
	}
	return "Merged"
}

// record takes what the history has.
func (row *pullRow) record(p history.PullRequest) {
	row.Commit, row.Merged, row.Applied, row.RolledOut = p.Commit, p.Merged, p.Applied, p.RolledOut
	if p.Predicted != nil {
		row.PredictedOf = p.Predicted
	}
	if !p.Applied.IsZero() {
		row.ActualOf = &p.Actual
	}
}

// written has the texts of what was predicted and of what happened.
func (row pullRow) written() pullRow {
	if row.PredictedOf != nil {
		row.Predicted = past.NodesText(*row.PredictedOf)
	}
	if row.ActualOf == nil && row.Rollout != nil {
		// Without a history, the status has the numbers.
		row.ActualOf = &history.NodeChanges{Replaced: int(row.Rollout.NodesReplaced), Removed: int(row.Rollout.NodesRemoved)}
	}
	if row.ActualOf != nil {
		row.Actual = past.NodesText(*row.ActualOf)
	}
	return row
}

// PullInput is what the page of a pull request is made of.
type PullInput struct {
	Report  get.Report
	History history.History
	// Namespace is that of the Syncs that the history has.
	Namespace   string
	Interrupted *Interruption
	// Number is that of the pull request. Several Syncs can have one of that number.
	Number int64
}

// factRow is one line of a comparison.
type factRow struct{ Name, Predicted, Actual string }

// pullDetail is a pull request of one Sync.
type pullDetail struct {
	pullRow
	Facts []factRow
	// Objects are those that its comment had as changed, Pools the nodes of NodePools that are replaced or removed.
	Objects []objectRow
	Pools   []poolNodes
	// Nodes are those that were replaced or removed because of it, of which NodesLeft more are not there.
	Nodes     []nodeRow
	NodesLeft int
}

// objectRow is an object that a pull request changes, or deletes.
type objectRow struct {
	Name    string
	Deleted bool
}

// poolNodes is how many nodes of a NodePool a pull request replaces or removes.
type poolNodes struct {
	Name, Path string
	Nodes      int32
}

// pullModel is what the page of a pull request is rendered from.
type pullModel struct {
	statusModel
	Interrupted string
	Number      int64
	Pulls       []pullDetail
}

// Pull renders the page of a pull request. It returns false where there is none of its number.
func (r *Renderer) Pull(in PullInput) (d Document, found bool, err error) {
	now := in.Report.Time.Time
	m := pullModel{statusModel: statusOf(in.Report, in.Interrupted), Interrupted: interruptionText(in.Interrupted, now), Number: in.Number}
	for _, row := range pullRows(in.Report, in.History, in.Namespace) {
		if row.Number == in.Number {
			m.Pulls = append(m.Pulls, detailOf(row, in.History, now))
		}
	}
	if len(m.Pulls) == 0 {
		return Document{}, false, nil
	}
	m.Title = m.titled(fmt.Sprintf("#%d", in.Number))
	path := pullPath(in.Number)
	// One that is open is in the status of its Sync only.
	data := "/api/v1/overview"
	if len(SelectPull(in.History, in.Number).PullRequests) > 0 {
		data = "/api/v1" + path
	}
	d, err = r.render(Document{Title: m.Title, Updates: "/updates" + path, Data: data}, m, "status", "pull")
	return d, true, err
}

func detailOf(row pullRow, h history.History, now time.Time) pullDetail {
	out := pullDetail{pullRow: row}
	actual := func(text func(history.NodeChanges) string) string {
		if row.ActualOf == nil {
			return unknown
		}
		return text(*row.ActualOf)
	}
	predicted := func(text func(history.NodeChanges) string) string {
		if row.PredictedOf == nil {
			return unknown
		}
		return text(*row.PredictedOf)
	}
	replaced := func(n history.NodeChanges) string { return count(&n.Replaced) }
	removed := func(n history.NodeChanges) string { return count(&n.Removed) }
	took := func(n history.NodeChanges) string {
		if n.Seconds == nil || n.Replaced+n.Removed == 0 {
			return unknown
		}
		return duration.HumanDuration(time.Duration(*n.Seconds * float64(time.Second)))
	}
	out.Facts = []factRow{
		{"Nodes replaced", predicted(replaced), actual(replaced)}, {"Nodes removed", predicted(removed), actual(removed)}, {"Time from the apply to the last node", minutes(row.Reviewed), actual(took)},
		{"Change of the cost", predictedCost(row.Reviewed), actualCost(row.Rollout)},
	}
	out.addReviewed()
	if row.Commit == "" {
		return out
	}
	for _, n := range slices.Backward(h.NodeClaims) {
		// A node that is there no more, or is on its way out.
		if !strings.HasSuffix(n.Revision, "@sha1:"+row.Commit) {
			continue
		}
		if len(out.Nodes) == maxPullNodes {
			out.NodesLeft++
			continue
		}
		out.Nodes = append(out.Nodes, terminatedRow(n, now, time.Hour))
	}
	return out
}

// addReviewed takes the objects and NodePools that a reviewer was shown.
func (d *pullDetail) addReviewed() {
	if d.Reviewed == nil {
		return
	}
	for _, o := range d.Reviewed.Objects {
		d.Objects = append(d.Objects, objectRow{clean(o.Kind + "/" + o.Name), o.Hash == ""})
	}
	for _, p := range d.Reviewed.Pools {
		d.Pools = append(d.Pools, poolNodes{clean(p.Name), pathOf("pools", p.Name), p.Nodes})
	}
}

// minutes are those within which the nodes would be replaced.
func minutes(r *v1alpha1.ReviewedDisruption) string {
	switch {
	case r == nil || r.NodesReplaced == 0:
		return unknown
	case r.MinMinutes == r.MaxMinutes:
		return fmt.Sprintf("%dm", r.MaxMinutes)
	}
	return fmt.Sprintf("%d–%dm", r.MinMinutes, r.MaxMinutes)
}

// predictedCost is by how much the nodes would cost more an hour.
func predictedCost(r *v1alpha1.ReviewedDisruption) string {
	if r == nil {
		return unknown
	}
	return costChange(forecasting.ReadHourlyCost(r.CostChange))
}

// actualCost is by how much they cost more once the roll-out had ended.
func actualCost(r *v1alpha1.RolloutOutcome) string {
	return costChange(forecasting.ActualCostChange(r))
}

// SelectPull is what of a History is of one pull request: with the nodes that were replaced or removed because of it.
func SelectPull(h history.History, number int64) history.History {
	out := history.History{Time: h.Time}
	for _, p := range h.PullRequests {
		if p.Number != number {
			continue
		}
		out.PullRequests = append(out.PullRequests, p)
		for _, n := range h.NodeClaims {
			if p.Commit != "" && strings.HasSuffix(n.Revision, "@sha1:"+p.Commit) {
				out.NodeClaims = append(out.NodeClaims, n)
			}
		}
	}
	return out
}
