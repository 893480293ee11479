package hold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// The fields and the annotation by which rules are set, as sentences name them.
const (
	// FieldDrift is that of DriftReported.
	FieldDrift            = "drift: Report"
	fieldMaxPrunePercent  = "guard.maxPrunePercent"
	fieldMaxNodesReplaced = "guard.maxNodesReplaced"
	fieldQuota            = "guard.quota"
	annotationHoldUntil   = "hold-until"
)

// String is the reason in a sentence for a person, without its token.
func (r Reason) String() string { return strings.Join(r.phrases(), "; ") }

// String is all the reasons in one sentence. What several of them share, such as how
// many nodes a plan replaces, is there once. Secrets are masked in what others wrote alone: what
// resembles the start of a private key must not hide what is behind it, nor a name that
// resembles a token what is to be confirmed.
func (r Reasons) String() string {
	var out []string
	for i, one := range r {
		before := r[:i]
		if slices.ContainsFunc(before, func(b Reason) bool { return b.Key() == one.Key() }) {
			continue
		}
		phrases := one.phrases()
		if slices.ContainsFunc(before, one.sameNodes) {
			phrases = phrases[1:] // The first is how many nodes.
		}
		out = append(out, phrases...)
	}
	return strings.Join(out, "; ")
}

// sameNodes reports whether both are held for the same numbers of nodes.
func (r Reason) sameNodes(other Reason) bool {
	if !(Reasons{r}).Nodes() || !(Reasons{other}).Nodes() {
		return false
	}
	a, b := r.Facts.Nodes, other.Facts.Nodes
	return a.Replaced == b.Replaced && a.Removed == b.Removed && a.Unknown == b.Unknown && a.Uncertain == b.Uncertain
}

func (r Reason) phrases() []string {
	f := r.Facts
	f.Detail = sanitize.Redact(f.Detail)
	switch r.Rule {
	case DriftReported:
		return []string{cmp.Or(f.Detail, "drift is only reported ("+FieldDrift+")")}
	case MaxPrunePercent:
		return []string{f.Deletions.String()}
	case DeletionLosses:
		return []string{fmt.Sprintf("deleting %s: %s", f.Object, f.Detail)}
	case UpdateLosses:
		return []string{fmt.Sprintf("updating %s: %s", f.Object, f.Detail)}
	case MaxNodesReplaced:
		return []string{f.Nodes.String(), fmt.Sprintf("%s is %d", fieldMaxNodesReplaced, *f.Nodes.Max)}
	case ReviewExceeded:
		return []string{f.Nodes.String(), f.Nodes.reviewed()}
	case QuotaExceeded:
		return []string{f.Quota.String()}
	case DependentDeletionHeld:
		return []string{f.dependentDeletionHeld()}
	case HoldUntil:
		return []string{f.until()}
	case SyncChangeHeld:
		return []string{fmt.Sprintf("updating %s would relax it (%s), which the repository alone cannot do", f.Object, strings.Join(f.Fields, ", "))}
	case ReadOnly:
	}
	return []string{f.Detail}
}

func (f Facts) until() string {
	out := fmt.Sprintf("stays as it is until %s (%s)", f.Until, annotationHoldUntil)
	if f.Object != "" {
		out = fmt.Sprintf("%s, which would be deleted with it, %s", f.Object, out)
	}
	if f.Detail != "" {
		out += ": " + f.Detail
	}
	return out
}

// String is how many things would be deleted, and the rule that limits it.
func (d Deletions) String() string {
	return fmt.Sprintf("%s (%s)", d.Unnamed(), fieldMaxPrunePercent)
}

// Unnamed is String without the rule, for a line that begins with it.
func (d Deletions) Unnamed() string {
	if d.Count == d.Managed {
		return fmt.Sprintf("would delete all %d objects", d.Count)
	}
	return fmt.Sprintf("would delete %d of %d objects, more than %d%%", d.Count, d.Managed, d.MaxPercent)
}

func (f Facts) dependentDeletionHeld() string {
	part := strings.Join(f.Fields, ", ")
	if f.Detail != "" {
		return fmt.Sprintf("%s may be in use: it is not known whether there is %s to be deleted: %s", part, f.Object, f.Detail)
	}
	return fmt.Sprintf("%[1]s stays: %[2]s still uses it, and the deletion of %[2]s is held", part, f.Object)
}

// String is how many nodes would be lost.
func (n Nodes) String() string {
	if n.Unknown != "" {
		return "may replace any number of nodes, since the number cannot be predicted: " + sanitize.Redact(n.Unknown)
	}
	noun := func(n int) string {
		if n == 1 {
			return "1 node"
		}
		return fmt.Sprintf("%d nodes", n)
	}
	out := "would replace " + noun(n.Replaced)
	switch {
	case n.Replaced == 0 && n.Removed > 0:
		out = "would take away " + noun(n.Removed) + with(n.Removed)
	case n.Removed > 0:
		out += fmt.Sprintf(" and take away %d", n.Removed) + with(n.Removed)
	}
	if n.Uncertain != "" {
		out += ", and maybe more: " + sanitize.Redact(n.Uncertain)
	}
	return out
}

// String is which pools need more than there is.
func (q Quota) String() string { return q.text(" (" + fieldQuota + ")") }

// Unnamed is String without the rule, for a line that begins with it.
func (q Quota) Unnamed() string { return q.text("") }

func (q Quota) text(rule string) string {
	noun, need, allows, code := "NodePool", "needs", fmt.Sprintf("the quota allows %d", q.LimitVCPUs), "quota code "
	if len(q.Pools) > 1 {
		noun, need = "NodePools", "need"
	}
	pools := names(q.Pools)
	if q.Unknown != "" {
		return fmt.Sprintf("%s %s %s more than before of quotas that could not be read: %s%s", noun, pools, need, sanitize.Redact(q.Unknown), rule)
	}
	if len(q.Codes) > 1 {
		allows, code = fmt.Sprintf("the quotas allow %d in all", q.LimitVCPUs), "quota codes "
	}
	if q.UsedByOthers {
		allows += ", less what other instances use"
	}
	code += strings.Join(q.Codes, ", ")
	switch {
	case q.Unlimited:
		return fmt.Sprintf("%s %s would have no limit of CPUs, GPUs or nodes any more, and %s%s: keep one of the limits", noun, pools, allows, rule)
	case q.SmallestType != "":
		if len(q.Codes) > 1 {
			allows = "none of the quotas has as many left"
		}
		return fmt.Sprintf("%s %s can have no node: its smallest instance type %s has %d vCPUs, %s%s: request a quota increase (%s) or allow a smaller type",
			noun, pools, sanitize.Name(q.SmallestType), q.NeededVCPUs, allows, rule, code)
	}
	return fmt.Sprintf("%s %s %s at least %d vCPUs, %s%s: request a quota increase (%s) or lower a limit", noun, pools, need, q.NeededVCPUs, allows, rule, code)
}

// names lists names as a sentence does.
func names(of []string) string {
	quoted := make([]string, 0, len(of))
	for _, name := range of {
		quoted = append(quoted, sanitize.Name(name))
	}
	last := len(quoted) - 1
	if last < 1 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}

// with is what so many nodes go with.
func with(nodes int) string {
	if nodes == 1 {
		return " with its pool"
	}
	return " with their pools"
}

// reviewed is how many nodes the reviews predicted.
func (n Nodes) reviewed() string {
	r := n.Reviewed
	numbers := slices.Sorted(slices.Values(r.PullRequests))
	names := make([]string, 0, len(numbers))
	for _, number := range numbers {
		names = append(names, fmt.Sprintf("#%d", number))
	}
	were := "were"
	if r.Nodes == 1 {
		were = "was"
	}
	out := fmt.Sprintf("%d %s predicted in the review of %s", r.Nodes, were, strings.Join(names, ", "))
	if n.Unknown == "" && r.Now != n.Replaced+n.Removed {
		return fmt.Sprintf("%d of them where %s", r.Now, out)
	}
	return out
}
