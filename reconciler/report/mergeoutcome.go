package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// leftNames is how many of the nodes that are left are named, each with what it
// waits for: whoever wants all of them asks the cluster.
const leftNames = 3

// lineWidth is how much of a line next to a commit forges show.
const lineWidth = 140

// MergeOutcome writes what became of a merged step as Markdown of at most a few lines,
// for the end of the comment that showed what it would do. Like the comment it holds
// nothing of a repository or a cluster outside of code.
func (o Options) MergeOutcome(a MergeOutcome) string {
	v := markdownStyle()
	a = a.clean()
	var out []string
	switch {
	case a.Held != "" && a.Applied.IsZero():
		out = append(out, fmt.Sprintf("⛔ %s; held: %s.", a.merged(), v.name(a.Held)))
	case a.Applied.IsZero() && a.Failed != "":
		return a.failed(v)
	case a.Applied.IsZero():
		return a.merged() + "; not applied yet.\n"
	default:
		out = append(out, a.applied(v)+". "+a.rollout()+a.waiting(v)+".")
		if a.Held != "" {
			out = append(out, "⛔ A part of it is held: "+v.name(a.Held)+".")
		}
	}
	switch {
	case a.ConfirmationToken != "":
		out = append(out, "To confirm all that waits: "+v.name(command(a.Sync, a.ConfirmationToken))+".")
	case a.Held != "":
		out = append(out, "The Sync's status shows what releases it: `kubectl -n poolwright-system describe syncs.poolwright.dev`.")
	}
	return strings.Join(out, "\n\n") + "\n"
}

// Line is what became of the step in one harmless line of plain text, short enough
// for a commit status.
func (a MergeOutcome) Line() string {
	a = a.clean()
	v := plainStyle()
	switch {
	case a.Held != "" && a.Applied.IsZero():
		return clip("Held: "+sanitize.Escape(a.Held), lineWidth)
	case a.Applied.IsZero() && a.Failed != "":
		return clip("Merged, not applied in full: "+sanitize.Escape(a.Failed), lineWidth)
	case a.Applied.IsZero():
		return "Merged, not applied yet"
	case a.Held != "":
		return clip(a.applied(v)+", a part is held: "+sanitize.Escape(a.Held), lineWidth)
	}
	return clip(a.applied(v)+". "+a.rollout(), lineWidth)
}

// clean is the aftermath as it may be shown.
func (a MergeOutcome) clean() MergeOutcome {
	a.Revision, a.Held, a.Left = sanitize.Redact(a.Revision), strings.TrimRight(sanitize.Redact(a.Held), "."), each(a.Left, cleanNode)
	a.Failed = sanitize.Redact(a.Failed)
	a.Nodes = max(a.Nodes, len(a.Left))
	a.Removed = min(a.Removed, a.Nodes)
	return a
}

// failed reports that an apply failed, and where why stands: what Git, AWS or the API
// server said of it is for those who may read the Sync.
func (a MergeOutcome) failed(v style) string {
	next := "It is retried."
	if a.Stalled {
		next = "The Sync is Stalled until that is corrected."
	}
	describe := "kubectl -n poolwright-system describe syncs.poolwright.dev"
	if namespace, name, ok := strings.Cut(a.Sync, "/"); ok {
		describe = fmt.Sprintf("kubectl -n %s describe syncs.poolwright.dev %s", namespace, name)
	}
	return fmt.Sprintf("❌ %s; not applied in full: %s. %s The error is in the Sync's status: %s.\n", a.merged(), v.name(a.Failed), next, v.name(describe))
}

func (a MergeOutcome) merged() string {
	if a.Merged.IsZero() {
		return "Merged"
	}
	return "Merged " + moment(a.Merged)
}

// applied is what was applied, and how long after the merge.
func (a MergeOutcome) applied(v style) string {
	out := "Applied"
	if a.Revision != "" {
		out += " " + v.revision(parted(a.Revision))
	}
	if !a.Merged.IsZero() && !a.Applied.Before(a.Merged) {
		out += " in " + took(a.Applied.Sub(a.Merged))
	}
	return out
}

// rollout counts the nodes, without naming any.
func (a MergeOutcome) rollout() string {
	switch {
	case a.Nodes == 0:
		return "No node had to be replaced"
	case len(a.Left) > 0:
		verb := "replaced"
		switch {
		case a.Removed >= a.Nodes:
			verb = "removed with their pool"
		case a.Removed > 0:
			verb = "replaced or removed with their pool"
		}
		return fmt.Sprintf("Roll-out: %d of %s %s, %d left", a.Nodes-len(a.Left), count(a.Nodes, "node"), verb, len(a.Left))
	case a.Done.Before(a.Applied):
		return "Roll-out: " + a.kinds("to replace", "to remove with their pool")
	}
	return fmt.Sprintf("Roll-out done in %s: %s", took(a.Done.Sub(a.Applied)), a.kinds("replaced", "removed with their pool"))
}

// kinds counts the nodes that are replaced and those that go with their pool.
func (a MergeOutcome) kinds(replaced, removed string) string {
	var out []string
	if n := a.Nodes - a.Removed; n > 0 {
		out = append(out, count(n, "node")+" "+replaced)
	}
	if a.Removed > 0 {
		out = append(out, count(a.Removed, "node")+" "+removed)
	}
	return strings.Join(out, ", ")
}

// waiting names the nodes that are left, those that wait for something first.
func (a MergeOutcome) waiting(v style) string {
	if len(a.Left) == 0 {
		return ""
	}
	var held, others []string
	for _, n := range a.Left {
		who := v.short(n.NodeClaim)
		if n.Name != "" {
			who = v.short(n.Name)
		}
		if why := v.waits(n); why != "" {
			held = append(held, who+" waits for "+why)
		} else {
			others = append(others, who)
		}
	}
	all := append(held, others...)
	if left := len(all) - leftNames; left > 0 {
		all = append(all[:leftNames:leftNames], strconv.Itoa(left)+" more")
	}
	return ": " + strings.Join(all, "; ")
}

// waits is what keeps a node, in few words.
func (v style) waits(n provision.Node) string {
	var out []string
	for _, b := range n.Blockers {
		why := v.blocker(b)
		switch {
		case b.Kind == "pdb":
			names := each(b.Budgets, v.name)
			why = "PodDisruptionBudget " + enough(names)
		case b.Kind == "do-not-disrupt" && b.Pod != (provision.Pod{}):
			why = "do-not-disrupt of " + v.pod(b.Pod)
		case b.Kind == "unschedulable" && b.Pod != (provision.Pod{}):
			why = "a place for " + v.pod(b.Pod)
		case b.Kind == "node":
			why = "its do-not-disrupt"
		case b.Kind == "limit":
			why = "room within the pool's limits"
		case b.Kind == "starting":
			why = "its own start"
		}
		if len(out) == 0 || out[len(out)-1] != why {
			out = append(out, why)
		}
	}
	if len(out) > fewNames {
		out = append(out[:fewNames:fewNames], "more")
	}
	return strings.Join(out, ", ")
}

// revision names a commit of a branch as people do.
func (v style) revision(branch, commit string) string {
	var out []string
	for _, name := range []string{branch, shortCommit(commit)} {
		if name != "" {
			out = append(out, v.short(name))
		}
	}
	return strings.Join(out, v.at)
}

// parted takes branch@sha1:commit apart; without a branch it is a commit alone.
func parted(revision string) (branch, commit string) {
	at := strings.LastIndex(revision, "@")
	branch, commit = revision[:max(at, 0)], revision[at+1:]
	if _, digest, ok := strings.Cut(commit, ":"); ok {
		commit = digest
	}
	return branch, commit
}

// shortCommit is the beginning of a commit's name by which people know it.
func shortCommit(s string) string {
	const enough = 7
	if len(s) > enough && strings.Trim(s, "0123456789abcdefABCDEF") == "" {
		return s[:enough]
	}
	return s
}

// moment is a time as it stands in a text that may be read much later.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

// took is how long something lasted, in the unit that suits it.
func took(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 3*time.Hour:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	case d < 72*time.Hour:
		return strconv.FormatFloat(d.Hours(), 'f', 1, 64) + " h"
	}
	return strconv.FormatFloat(d.Hours()/24, 'f', 1, 64) + " days"
}
