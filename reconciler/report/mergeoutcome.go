package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/headline"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// MergeOutcome is what became of a change after its merge.
type MergeOutcome struct {
	// Revision is what was applied, branch@sha1:commit; empty while it is not.
	Revision string
	// Merged and Applied are when; Applied is zero while it is not.
	Merged, Applied time.Time
	// Sync is the namespace and the name of the Sync, with a slash between them, for the
	// command that lets held changes go on; may be empty.
	Sync string
	// Held is why the change, or a part of it, was not applied; empty where nothing
	// keeps it.
	Held string
	// ConfirmationToken lets pass what of that waits for a confirmation; empty where
	// nothing does.
	ConfirmationToken string
	// Failed is the reason for which the change was not applied, or not all of it, as the
	// Sync's status has it; empty where nothing failed. Stalled is true where no other try
	// can help.
	Failed  string
	Stalled bool
	// Nodes is how many nodes the change made stale, or would have replaced at the
	// review; Remaining are those of them that are still there.
	Nodes     int
	Remaining []provision.Node
	// Removed is how many of Nodes go with their pool and get no replacement.
	Removed int
	// Done is when the last of them was gone; zero before.
	Done time.Time
	// Predicted is what the comment predicted of nodes, Actual what was observed until Done; nil where
	// the one or the other is not known.
	Predicted, Actual *RolloutFigures
}

// maxNamedNodes is how many of the nodes that are left are named, each with what it
// waits for: all of them are in the cluster.
const maxNamedNodes = 3

// Markdown writes what became of a merged change in a few lines at most, for the end of the
// comment that showed what it would do. Like the comment it holds nothing of a repository
// or a cluster outside of code.
func (a MergeOutcome) Markdown() string {
	v := markup.Markdown()
	a = a.clean()
	var out []string
	switch {
	case a.Held != "" && a.Applied.IsZero():
		out = append(out, fmt.Sprintf("⛔ %s; held: %s.", a.merged(), v.Name(a.Held)))
	case a.Applied.IsZero() && a.Failed != "":
		return a.failed(v)
	case a.Applied.IsZero():
		return a.merged() + "; not applied yet.\n"
	default:
		out = append(out, a.applied(v)+". "+a.rollout()+a.waiting(v)+".")
		if table := a.comparison(v); table != "" {
			out = append(out, table)
		}
		if a.Held != "" {
			out = append(out, "⛔ A part of it is held: "+v.Name(a.Held)+".")
		}
	}
	switch {
	case a.ConfirmationToken != "":
		out = append(out, "To confirm all that waits: "+v.Name(command(a.Sync, a.ConfirmationToken))+".")
	case a.Held != "":
		out = append(out, "The Sync's status shows what releases it: `kubectl -n poolwright-system describe syncs.poolwright.dev`.")
	}
	return strings.Join(out, "\n\n") + "\n"
}

// Line is what became of the change in one escaped line of plain text, short enough for a
// commit status.
func (a MergeOutcome) Line() string {
	a = a.clean()
	v := markup.PlainText()
	switch {
	case a.Held != "" && a.Applied.IsZero():
		return markup.Clip("Held: "+sanitize.Escape(a.Held), headline.Width)
	case a.Applied.IsZero() && a.Failed != "":
		return markup.Clip("Merged, not applied in full: "+sanitize.Escape(a.Failed), headline.Width)
	case a.Applied.IsZero():
		return "Merged, not applied yet"
	case a.Held != "":
		return markup.Clip(a.applied(v)+", a part is held: "+sanitize.Escape(a.Held), headline.Width)
	}
	return markup.Clip(a.applied(v)+". "+a.rollout(), headline.Width)
}

// clean is the outcome as it may be shown.
func (a MergeOutcome) clean() MergeOutcome {
	a.Revision, a.Held, a.Remaining = sanitize.Redact(a.Revision), strings.TrimRight(sanitize.Redact(a.Held), "."), forecast.SanitizedNodes(a.Remaining)
	a.Failed = sanitize.Redact(a.Failed)
	a.Nodes = max(a.Nodes, len(a.Remaining))
	a.Removed = min(a.Removed, a.Nodes)
	return a
}

// failed reports that an apply failed, and where why stands: what Git, AWS or the API
// server reported of it is for those who may read the Sync.
func (a MergeOutcome) failed(v markup.Style) string {
	next := "It is retried."
	if a.Stalled {
		next = "The Sync is Stalled until that is corrected."
	}
	describe := "kubectl -n poolwright-system describe syncs.poolwright.dev"
	if namespace, name, ok := strings.Cut(a.Sync, "/"); ok {
		describe = fmt.Sprintf("kubectl -n %s describe syncs.poolwright.dev %s", namespace, name)
	}
	return fmt.Sprintf("❌ %s; not applied in full: %s. %s The error is in the Sync's status: %s.\n", a.merged(), v.Name(a.Failed), next, v.Name(describe))
}

func (a MergeOutcome) merged() string {
	if a.Merged.IsZero() {
		return "Merged"
	}
	return "Merged " + moment(a.Merged)
}

// applied is what was applied, and how long after the merge.
func (a MergeOutcome) applied(v markup.Style) string {
	out := "Applied"
	if a.Revision != "" {
		branch, commit := splitRevision(a.Revision)
		out += " " + revision(v, branch, commit)
	}
	if !a.Merged.IsZero() && !a.Applied.Before(a.Merged) {
		out += " in " + formatDuration(a.Applied.Sub(a.Merged))
	}
	return out
}

// rollout counts the nodes, without naming any.
func (a MergeOutcome) rollout() string {
	switch {
	case a.Nodes == 0:
		return "No node had to be replaced"
	case len(a.Remaining) > 0:
		verb := "replaced"
		switch {
		case a.Removed >= a.Nodes:
			verb = "removed with their pool"
		case a.Removed > 0:
			verb = "replaced or removed with their pool"
		}
		return fmt.Sprintf("Roll-out: %d of %s %s, %d left", a.Nodes-len(a.Remaining), plural.Count(a.Nodes, "node"), verb, len(a.Remaining))
	case a.Done.Before(a.Applied):
		return "Roll-out: " + a.kinds("to replace", "to remove with their pool")
	}
	return fmt.Sprintf("Roll-out done in %s: %s", formatDuration(a.Done.Sub(a.Applied)), a.kinds("replaced", "removed with their pool"))
}

// kinds counts the nodes that are replaced and those that go with their pool.
func (a MergeOutcome) kinds(replaced, removed string) string {
	var out []string
	if n := a.Nodes - a.Removed; n > 0 {
		out = append(out, plural.Count(n, "node")+" "+replaced)
	}
	if a.Removed > 0 {
		out = append(out, plural.Count(a.Removed, "node")+" "+removed)
	}
	return strings.Join(out, ", ")
}

// waiting names the nodes that are left, those that wait for something first.
func (a MergeOutcome) waiting(v markup.Style) string {
	if len(a.Remaining) == 0 {
		return ""
	}
	view := forecast.View{Style: v}
	var held, others []string
	for _, n := range a.Remaining {
		who := v.Short(n.NodeClaim)
		if n.Name != "" {
			who = v.Short(n.Name)
		}
		if why := view.Waits(n); why != "" {
			held = append(held, who+" waits for "+why)
		} else {
			others = append(others, who)
		}
	}
	all := append(held, others...)
	if left := len(all) - maxNamedNodes; left > 0 {
		all = append(all[:maxNamedNodes:maxNamedNodes], strconv.Itoa(left)+" more")
	}
	return ": " + strings.Join(all, "; ")
}

// command is what a person types to confirm; without the name of a Sync, what its
// annotation must be.
func command(sync, token string) string {
	namespace, name, ok := strings.Cut(sync, "/")
	if !ok {
		return "poolwright.dev/confirm: " + token
	}
	return confirm.Command(namespace, name, token)
}
