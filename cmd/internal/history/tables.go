package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

// print writes a table.
func print(w io.Writer, t *metav1.Table, options printers.PrintOptions) error {
	if err := printers.NewTablePrinter(options).PrintObj(t, w); err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	return nil
}

// table makes a table of columns; those that begin with * are of -o wide.
func table(columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range columns {
		short, wide := strings.CutPrefix(name, "*")
		c := metav1.TableColumnDefinition{Name: short, Type: "string"}
		if wide {
			c.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, c)
	}
	return t
}

func addRow(t *metav1.Table, cells ...any) { t.Rows = append(t.Rows, metav1.TableRow{Cells: cells}) }

// tableOf is a section as a table.
func tableOf(h history.History, s historySection, now time.Time) *metav1.Table {
	switch s {
	case sectionRevisions:
		return appliesTable(h.Applies)
	case sectionDrift:
		return driftTable(h.Drift)
	case sectionPullRequests:
		return pullsTable(h.PullRequests)
	case sectionNodes:
		return nodesTable(h, now)
	case sectionCosts:
		return costsTable(h.PoolHours)
	case sectionAll:
	}
	return table()
}

func appliesTable(applies []history.Apply) *metav1.Table {
	t := table("Applied", "Sync", "Revision", "Created", "Updated", "Deleted", "Failed", "Held", "Duration", "*Objects")
	for _, a := range applies {
		addRow(t, instant(a.Time), a.Sync, orDash(short(a.Revision)), a.Created, a.Updated, a.Deleted, a.Failed, a.Held, seconds(a.Seconds), orDash(strings.Join(a.Objects, ",")))
	}
	return t
}

func driftTable(drift []history.Drift) *metav1.Table {
	t := table("Drifted", "Sync", "Object", "Result", "Manager", "Difference", "*Operation", "*Manager-time", "*Last-found")
	for _, d := range drift {
		var manager owner.Manager
		if len(d.Managers) > 0 {
			manager = d.Managers[0]
		}
		name := orDash(manager.Name)
		if more := len(d.Managers) - 1; more > 0 {
			name += fmt.Sprintf(" +%d", more)
		}
		addRow(t, instant(d.Time), d.Sync, d.Object, string(d.Result), name, difference(d), orDash(manager.Operation), orDash(manager.Time), instant(d.Last))
	}
	return t
}

// difference is the first field that differed, with how many more there are.
func difference(d history.Drift) string {
	switch {
	case d.Deleted:
		return "deleted"
	case len(d.Fields) == 0:
		return "-"
	}
	f := d.Fields[0]
	text := fmt.Sprintf("%s: %s -> %s", f.Path, orNone(f.After), orNone(f.Before))
	if more := len(d.Fields) - 1; more > 0 {
		text += fmt.Sprintf(" (+%d more)", more)
	}
	return text
}

func pullsTable(pulls []history.PullRequest) *metav1.Table {
	t := table("Merged", "Sync", "Number", "Applied", "Rolled-out", "Replaced", "Removed", "Duration", "*Commit", "*Headline")
	for _, p := range pulls {
		replaced, removed := fmt.Sprint(p.Actual.Replaced), fmt.Sprint(p.Actual.Removed)
		if p.Predicted != nil {
			replaced = fmt.Sprintf("%d of %d", p.Actual.Replaced, p.Predicted.Replaced)
			removed = fmt.Sprintf("%d of %d", p.Actual.Removed, p.Predicted.Removed)
		}
		took := "-"
		if p.Actual.Seconds != nil && p.Actual.Replaced+p.Actual.Removed > 0 {
			took = seconds(*p.Actual.Seconds)
		}
		addRow(t, instant(p.Merged), p.Sync, fmt.Sprintf("#%d", p.Number), instant(p.Applied), instant(p.RolledOut), replaced, removed, took, orDash(short(p.Commit)), orDash(p.Headline))
	}
	return t
}

func nodesTable(h history.History, now time.Time) *metav1.Table {
	t := table("Launched", "NodeClaim", "Pool", "Type", "Capacity", "GPUs", "Lifetime", "Requested", "$", "For", "Terminated", "*Node", "*Zone", "*Revision", "*Message")
	for _, n := range h.NodeClaims {
		end, terminated := n.Terminated.Time, string(n.Reason)
		if end.IsZero() {
			end = now
			if terminated != "" {
				terminated += " (terminating)"
			}
		}
		lifetime := duration.HumanDuration(max(0, end.Sub(n.Launched.Time)))
		if n.TerminationUnobserved {
			lifetime = ">=" + lifetime
		}
		addRow(t, instant(n.Launched), n.Name, n.NodePool, n.InstanceType, n.CapacityType, n.GPUs, lifetime, percent(n.GPUSeconds.Requested, n.GPUSeconds.Paid-n.GPUSeconds.Unobserved),
			dollars(n.USD, n.PriceBasis.Approximate()), orDash(strings.Join(n.Pods, ",")), orDash(terminated), orDash(n.Node), orDash(n.Zone), orDash(short(n.Revision)), orDash(n.Message))
	}
	return t
}

// poolDay is a day of a pool.
type poolDay struct{ day, pool string }

func costsTable(hours []history.PoolHour) *metav1.Table {
	t := table("Day", "Pool", "Node-hours", "GPU-hours", "Requested", "Idle", "$", "$-idle", "*Allocatable", "*Unobserved", "*Unpriced-node-hours")
	sums := map[poolDay]*history.PoolHour{}
	var keys []poolDay
	for _, h := range hours {
		key := poolDay{h.Hour.UTC().Format(time.DateOnly), h.NodePool}
		if sums[key] == nil {
			sums[key] = &history.PoolHour{}
			keys = append(keys, key)
		}
		sum := sums[key]
		sum.NodeSeconds, sum.UnpricedSeconds = sum.NodeSeconds+h.NodeSeconds, sum.UnpricedSeconds+h.UnpricedSeconds
		sum.GPUSeconds, sum.USD, sum.Approximate = sum.GPUSeconds.Plus(h.GPUSeconds), sum.USD.Plus(h.USD), sum.Approximate || h.Approximate
	}
	slices.SortFunc(keys, func(a, b poolDay) int { return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.pool, b.pool)) })
	for _, key := range keys {
		s := sums[key]
		paid, idle := &s.USD.Paid, &s.USD.Idle
		if s.UnpricedSeconds > 0 {
			paid, idle = nil, nil
		}
		if s.GPUSeconds.Paid == 0 {
			addRow(t, key.day, key.pool, inHours(s.NodeSeconds), "-", "-", "-", dollars(paid, s.Approximate), "-", "-", "-", inHours(s.UnpricedSeconds))
			continue
		}
		addRow(t, key.day, key.pool, inHours(s.NodeSeconds), inHours(s.GPUSeconds.Paid), inHours(s.GPUSeconds.Requested), inHours(s.GPUSeconds.Idle),
			dollars(paid, s.Approximate), dollars(idle, s.Approximate), inHours(s.GPUSeconds.Allocatable), inHours(s.GPUSeconds.Unobserved), inHours(s.UnpricedSeconds))
	}
	return t
}

// instant is a time in UTC, with seconds; - for none.
func instant(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// short is a revision with the first seven characters of its commit.
func short(revision string) string {
	const keep = 7
	if branch, commit, found := strings.Cut(revision, "@sha1:"); found {
		return branch + "@" + commit[:min(len(commit), keep)]
	}
	if len(revision) == 40 {
		return revision[:keep]
	}
	return revision
}

func seconds(n float64) string {
	if n < 1 {
		return fmt.Sprintf("%.1fs", n)
	}
	return duration.HumanDuration(time.Duration(n * float64(time.Second)))
}

// inHours are seconds as hours, with a tenth; what is less than a tenth is not rounded to nothing.
func inHours(seconds float64) string {
	const tenth = 0.1
	hours := seconds / time.Hour.Seconds()
	if hours > 0 && hours < tenth {
		return fmt.Sprintf("%.2f", max(hours, tenth*tenth))
	}
	return fmt.Sprintf("%.1f", hours)
}

// percent is a part of a whole; - for a part of nothing.
func percent(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*min(part/whole, 1))
}

// dollars is an amount for a column in dollars, with ~ before an approximate one; - where it is not known.
func dollars(usd *float64, approximate bool) string {
	if usd == nil {
		return "-"
	}
	return strings.Replace(amount(*usd, approximate), "$", "", 1)
}

// amount is an amount with cents, with ~ before an approximate one. One below a cent is not rounded to nothing.
func amount(usd float64, approximate bool) string {
	const cent = 0.01
	text := fmt.Sprintf("$%.2f", usd)
	switch {
	case usd > 0 && usd < cent:
		text = "<$0.01"
	case approximate:
		text = "~" + text
	}
	return text
}

func orDash(text string) string { return cmp.Or(text, "-") }

func orNone(text string) string { return cmp.Or(text, "<none>") }
