package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// attentionRow is something that a person should read.
type attentionRow struct {
	// Sign is that of its severity.
	Sign, Class string
	Text        string
	// Path and Link are a page with more about it; empty where there is none.
	Path, Link string
	// Command is what a person can run; empty where there is nothing to run.
	Command string
}

// maxAttention is how many rows of one kind there are.
const maxAttention = 5

// attentionOf lists what is not as it should be, the most severe first.
func attentionOf(in Input) []attentionRow {
	r := in.Report
	var out []attentionRow
	if text := interruptionText(in.Interrupted, r.Time.Time); text != "" {
		out = append(out, attentionRow{Sign: signError, Class: "error", Text: text})
	}
	out = append(out, syncAttention(r)...)
	out = append(out, podAttention(r)...)
	var pools, nodes []attentionRow
	for _, p := range r.Pools {
		if p.State == "Ready" || p.State == "Terminating" {
			continue
		}
		pools = append(pools, attentionRow{Sign: signWarning, Class: "warning", Text: fmt.Sprintf("NodePool %s is %s: %s", clean(p.Name), clean(p.State), cmp.Or(clean(p.Message), clean(p.Reason))), Path: pathOf("pools", p.Name), Link: "why"})
	}
	for _, n := range r.Nodes {
		if n.State == "NotReady" {
			nodes = append(nodes, attentionRow{Sign: signWarning, Class: "warning", Text: fmt.Sprintf("Node %s is NotReady: %s", clean(n.Name), cmp.Or(clean(n.Message), clean(n.Reason))), Path: pathOf("nodes", n.Name), Link: "why"})
		}
	}
	out = append(out, firstRows(pools, "more NodePool")...)
	out = append(out, firstRows(nodes, "more node")...)
	for _, u := range r.IncompleteKinds {
		out = append(out, attentionRow{Sign: signNote, Class: "note", Text: "Not read: " + clean(u.Message)})
	}
	if text := outdatedHistory(in); text != "" {
		out = append(out, attentionRow{Sign: signNote, Class: "note", Text: text})
	}
	severity := map[string]int{"error": 0, "warning": 1, "note": 2}
	slices.SortStableFunc(out, func(a, b attentionRow) int { return cmp.Compare(severity[a.Class], severity[b.Class]) })
	return out
}

// maxHistoryAge is more than the time between two records while nodes run.
const maxHistoryAge = 15 * time.Minute

// outdatedHistory reports that nothing was recorded for long although nodes run; empty where that is not so, or nothing ever was.
func outdatedHistory(in Input) string {
	at, now := in.History.Time.Time, in.Report.Time.Time
	if at.IsZero() || now.Sub(at) <= maxHistoryAge || len(in.Report.Nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("The history is recorded until %s UTC: what happened since is not on the page. The log of the controller has why.", clock(at, now))
}

// firstRows are at most maxAttention rows of one kind, and one with how many more there are of what.
func firstRows(rows []attentionRow, what string) []attentionRow {
	more := len(rows) - maxAttention
	if more <= 0 {
		return rows
	}
	first := rows[0]
	return append(slices.Clone(rows[:maxAttention]), attentionRow{Sign: first.Sign, Class: first.Class, Text: plural.Count(more, what) + " not ready"})
}

// interruptionText is a sentence on an interruption; empty where there is none.
func interruptionText(i *Interruption, now time.Time) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("The cluster could not be read since %s UTC, and the page has the state of then: %s", clock(i.Since, now), clean(i.Message))
}

// syncAttention lists the Syncs that are not ready, or suspended.
func syncAttention(r get.Report) []attentionRow {
	var out []attentionRow
	for _, s := range r.Syncs {
		switch {
		case s.Suspended:
			out = append(out, attentionRow{Sign: signNote, Class: "note", Text: "Sync " + clean(s.Name) + " is suspended" + cmp.Or(clean(suspension.Text(s.SuspendedUntil, s.SuspendReason)), ": no reason was given"), Command: "poolwright resume " + clean(s.Name) + " -n " + clean(s.Namespace)})
		case s.Ready != string(metav1.ConditionTrue):
			row := attentionRow{Sign: signError, Class: "error", Text: fmt.Sprintf("Sync %s is not ready: %s: %s", clean(s.Name), orDash(s.Reason), orDash(s.Message))}
			if s.Pending > 0 {
				row.Path, row.Link = "#drift", plural.Count(s.Pending, "change")
			} else {
				row.Command = "poolwright reconcile " + clean(s.Name) + " -n " + clean(s.Namespace)
			}
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b attentionRow) int { return cmp.Compare(a.Class, b.Class) }) // an error before a note
	return firstRows(out, "more Sync")
}

// podAttention lists the pending pods that have waited longest.
func podAttention(r get.Report) []attentionRow {
	var out []attentionRow
	for _, p := range r.PendingPods[:min(len(r.PendingPods), maxAttention)] {
		out = append(out, attentionRow{
			Sign: signWarning, Class: "warning", Path: pathOf("pods", p.Namespace, p.Name), Link: "why",
			Text: fmt.Sprintf("Pod %s/%s requests %s and is pending for %s", clean(p.Namespace), clean(p.Name), plural.Count(int(p.GPUs), "GPU"), age(r.Time.Time, p.Created)),
		})
	}
	if s := r.Summary; s != nil && s.PendingGPUPods != nil && *s.PendingGPUPods > maxAttention {
		out = append(out, attentionRow{Sign: signWarning, Class: "warning", Text: plural.Count(*s.PendingGPUPods-maxAttention, "more pod") + " with GPUs pending"})
	}
	return out
}
