package page

import (
	"cmp"
	"fmt"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// syncConditions are at most maxConditions conditions, and how many more there are.
type syncConditions struct {
	Items []syncCondition
	More  int
}

// syncCondition is what is to be known of a Sync beside a table.
type syncCondition struct {
	Sync string
	// Reason is why something is not known of it, in CamelCase; empty where it is known. Where it was never compared or read it is notCompared or notObserved.
	Reason string
	// Since is since when that is so; empty where that is not known.
	Since string
	// Text is a sentence with all of it.
	Text string
}

// maxConditions is how many Syncs are beside a table.
const maxConditions = 5

// notCompared is the reason of a Sync that has no condition Drifted yet, as that of one whose condition has it; notObserved that of pull requests that
// are not read.
const (
	notCompared = "NotCompared"
	notObserved = "NotObserved"
)

// isCompared reports whether it is known of a Sync that something differs from the repository, or that nothing does.
func isCompared(s get.Sync) bool {
	return !s.Suspended && (s.Drifted == string(metav1.ConditionTrue) || s.Drifted == string(metav1.ConditionFalse))
}

// driftConditions are the Syncs of which drift is not known: why, since when, and what was known last. More are how many are left out.
func driftConditions(r get.Report) (conditions []syncCondition, more int) {
	for _, s := range r.Syncs {
		if !isCompared(s) {
			conditions = append(conditions, driftCondition(s, r.Time.Time))
		}
	}
	return firstConditions(conditions)
}

func driftCondition(s get.Sync, now time.Time) syncCondition {
	n := syncCondition{Sync: clean(s.Name), Reason: clean(cmp.Or(s.DriftReason, notCompared))}
	if s.DriftTransition != nil {
		n.Since = clock(s.DriftTransition.Time, now)
	}
	if s.Suspended && s.DriftReason != fluxmeta.SuspendedReason {
		// The controller has not taken the suspension in: the condition is of the time before.
		n.Reason, n.Since = fluxmeta.SuspendedReason, ""
	}
	since := ""
	if n.Since != "" {
		since = " since " + n.Since + " UTC"
	}
	switch {
	case s.Suspended:
		n.Text = fmt.Sprintf("Sync %s is suspended%s. It is not compared with the repository%s.%s", n.Sync, suspended(s), since, lastKnown(s))
	case s.DriftReason == "":
		n.Text = fmt.Sprintf("Sync %s has not been compared with the repository yet.", n.Sync)
	default:
		n.Text = fmt.Sprintf("Sync %s%s: %s.%s", n.Sync, since, n.Reason, lastKnown(s))
	}
	return n
}

// suspended is until when a Sync is suspended, and why.
func suspended(s get.Sync) string {
	return cmp.Or(clean(suspension.Text(s.SuspendedUntil, s.SuspendReason)), ": no reason was given")
}

// lastKnown is what the last comparison of a Sync found, and the revision that was applied last.
func lastKnown(s get.Sync) string {
	text := " The last comparison found no pending change."
	if s.Pending > 0 {
		text = fmt.Sprintf(" The last comparison found %s.", plural.Count(s.Pending, "pending change"))
	}
	if s.Revision != "" {
		text += fmt.Sprintf(" %s was applied last.", short(s.Revision))
	}
	return text
}

// pullConditions are, for each Sync, how many pull requests are open, or why that is not known. More are how many Syncs are left out.
func pullConditions(r get.Report) (conditions []syncCondition, more int) {
	for _, s := range r.Syncs {
		conditions = append(conditions, pullCondition(s))
	}
	return firstConditions(conditions)
}

func pullCondition(s get.Sync) syncCondition {
	n, p := syncCondition{Sync: clean(s.Name)}, s.PullRequests
	if p == nil {
		n.Reason, n.Text = notObserved, fmt.Sprintf("Sync %s has no spec.pullRequests: its pull requests are not read.", n.Sync)
		return n
	}
	open := ""
	if p.Open != nil {
		open = fmt.Sprintf(" When they were read last, %d were open.", *p.Open)
	}
	switch {
	case s.Suspended:
		n.Reason, n.Text = fluxmeta.SuspendedReason, fmt.Sprintf("Sync %s is suspended, and its pull requests are not read.%s", n.Sync, open)
	case p.Reason != "":
		n.Reason = clean(p.Reason)
		n.Text = fmt.Sprintf("The pull requests of Sync %s cannot be read or commented on: %s: %s.%s", n.Sync, n.Reason, clean(p.Message), open)
	case p.Open == nil:
		n.Reason, n.Text = notObserved, fmt.Sprintf("The pull requests of Sync %s were not read yet.", n.Sync)
	case *p.Open == 0:
		n.Text = fmt.Sprintf("Sync %s: no pull request is open.", n.Sync)
	default:
		n.Text = fmt.Sprintf("Sync %s: %s.", n.Sync, plural.Count(*p.Open, "open pull request"))
	}
	return n
}

// firstConditions are at most maxConditions conditions, and how many more there are.
func firstConditions(conditions []syncCondition) (first []syncCondition, more int) {
	first = conditions[:min(len(conditions), maxConditions)]
	return first, len(conditions) - len(first)
}
