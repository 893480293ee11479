package get

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/poolwright/poolwright/reconciler/suspension"
)

// sectionName names a part of the report that can be requested alone.
type sectionName string

// The sections, in the order of the overview; the empty one is all of them.
const (
	sectionAll   sectionName = ""
	sectionSyncs sectionName = "syncs"
	sectionPools sectionName = "pools"
	sectionNodes sectionName = "nodes"
	sectionPulls sectionName = "pullrequests"
	sectionDrift sectionName = "drift"
	sectionQuota sectionName = "quota"
)

func sections() []sectionName {
	return []sectionName{sectionSyncs, sectionPools, sectionNodes, sectionPulls, sectionDrift, sectionQuota}
}

// priced reports whether the section has prices.
func (s sectionName) priced() bool {
	return s == sectionAll || s == sectionPools || s == sectionNodes
}

// singular heads the first column of a section's table in the overview, where kubectl's NAME would be
// ambiguous.
func (s sectionName) singular() string {
	return map[sectionName]string{sectionSyncs: "Sync", sectionPools: "Pool", sectionNodes: "Node", sectionPulls: "Pull", sectionDrift: "Drift", sectionQuota: "Quota"}[s]
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

func addRow(t *metav1.Table, cells ...any) {
	t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
}

// tableOf is a section as a table. Namespaces are a column where several may be in it.
func (r Report) tableOf(s sectionName, namespaces bool) *metav1.Table {
	switch s {
	case sectionSyncs:
		return r.syncTable(namespaces)
	case sectionPools:
		return r.poolTable()
	case sectionNodes:
		return r.nodeTable()
	case sectionPulls:
		return r.pullTable(namespaces)
	case sectionDrift:
		return r.driftTable()
	case sectionQuota:
		return r.quotaTable()
	default:
		return r.summaryTable()
	}
}

func (r Report) summaryTable() *metav1.Table {
	t := table("Cluster", "Region", "Engine", "Ready", "Nodes", "GPUs", "Requested", "Idle", "Pending-pods", "$/h", "*Price-date")
	if s := r.Summary; s != nil {
		pending := "-"
		if s.PendingGPUPods != nil {
			pending = strconv.Itoa(*s.PendingGPUPods)
		}
		addRow(t, orDash(s.Cluster), orDash(s.Region), orDash(s.Engine), orDash(s.Ready), s.Nodes.total(), number(s.GPUs.Allocatable), number(s.GPUs.Requested), number(s.GPUs.Idle), pending, s.USDPerHour.String(), s.PriceDate)
	}
	return t
}

func (r Report) syncTable(namespaces bool) *metav1.Table {
	columns := []string{"Name", "Ready", "Suspended", "Revision", "Drifted", "Pending", "Age", "Message", "*Objects", "*Attempted"}
	if namespaces {
		columns = append([]string{"Namespace"}, columns...)
	}
	t := table(columns...)
	for _, s := range r.Syncs {
		message := s.Message
		if s.RolledBackTo != "" {
			rolledBack := strings.TrimSuffix("rolled back to "+shortRevision(s.RolledBackTo)+": "+s.RollbackReason, ": ")
			message = strings.TrimSuffix(rolledBack+"; "+message, "; ")
		}
		if details := suspension.Text(s.SuspendedUntil, s.SuspendReason); details != "" {
			message = strings.TrimSuffix("suspended"+details+"; "+message, "; ")
		}
		if s.NotSelectedBy != "" {
			message = strings.TrimSuffix("not reconciled: its labels do not match --watch-label-selector="+s.NotSelectedBy+"; "+message, "; ")
		}
		cells := []any{s.Name, s.Ready, s.Suspended, orDash(shortRevision(s.Revision)), s.Drifted, s.Pending, r.age(s.Created), orDash(message), s.Objects, orDash(shortRevision(s.AttemptedRevision))}
		if namespaces {
			cells = append([]any{s.Namespace}, cells...)
		}
		addRow(t, cells...)
	}
	return t
}

func (r Report) poolTable() *metav1.Table {
	t := table("Name", "Nodes", "Ready", "GPUs", "Requested", "Idle", "Limit", "$/h", "Drifted", "Age", "State", "*NodeClass", "*Message")
	for _, p := range r.Pools {
		var limits []string
		for _, l := range p.Limits {
			limits = append(limits, l.String())
		}
		addRow(t, p.Name, p.Nodes.total(), p.Nodes.ready(), number(p.GPUs.Allocatable), number(p.GPUs.Requested), number(p.GPUs.Idle), orDash(strings.Join(limits, ", ")),
			p.USDPerHour.String(), p.Nodes.drifted(), r.age(p.Created), stateText(p.State, p.Reason), orDash(p.NodeClass), orDash(p.Message))
	}
	return t
}

func (r Report) nodeTable() *metav1.Table {
	t := table("Name", "Pool", "Type", "Capacity-type", "Zone", "GPUs", "Requested", "Pods", "$/h", "Age", "State", "Reason", "*NodeClaim", "*Message")
	for _, n := range r.Nodes {
		pods := "-"
		if n.Pods != nil {
			pods = strconv.Itoa(*n.Pods)
		}
		states := []string{n.State}
		if n.Drifted != "" {
			states = append(states, "Drifted")
		}
		if n.Unschedulable {
			states = append(states, "SchedulingDisabled")
		}
		addRow(t, n.Name, orDash(n.NodePool), orDash(n.InstanceType), orDash(n.CapacityType), orDash(n.Zone), number(n.GPUs.Allocatable), number(n.GPUs.Requested), pods,
			n.USDPerHour.String(), r.age(n.Created), strings.Join(states, ","), orDash(n.Reason), orDash(n.NodeClaim), orDash(n.Message))
	}
	return t
}

func (r Report) pullTable(namespaces bool) *metav1.Table {
	columns := []string{"Number", "Sync", "Phase", "Replaced", "Removed", "Head", "Merged", "Headline"}
	if namespaces {
		columns = append([]string{"Namespace"}, columns...)
	}
	t := table(columns...)
	for _, p := range r.PullRequests {
		merged := "-"
		if p.Merged != nil {
			merged = r.age(*p.Merged)
		}
		cells := []any{"#" + strconv.FormatInt(p.Number, 10), p.Sync, p.Phase, count(p.NodesReplaced), count(p.NodesRemoved), orDash(p.Head[:min(len(p.Head), 7)]), merged, orDash(p.Headline)}
		if namespaces {
			cells = append([]any{p.Namespace}, cells...)
		}
		addRow(t, cells...)
	}
	return t
}

func (r Report) driftTable() *metav1.Table {
	t := table("Object", "Action", "Rule", "Owner", "Source", "Reason")
	for _, d := range r.Drift {
		addRow(t, d.Object, orDash(d.Action), orDash(strings.Join(slices.Concat(d.HeldBy, d.SkippedBy), ",")), d.Owner, orDash(d.Source), orDash(d.Reason))
	}
	return t
}

func (r Report) quotaTable() *metav1.Table {
	t := table("Name", "Limit", "Used", "Free", "Observed")
	for _, q := range r.Quotas {
		addRow(t, q.Name, q.LimitVCPUs, q.UsedVCPUs, max(0, q.LimitVCPUs-q.UsedVCPUs), r.age(q.Observed))
	}
	return t
}

// brief is the report with what needs somebody's attention, or is in progress, of its long sections.
func (r Report) brief() Report {
	r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), Node.steady)
	r.PullRequests = slices.DeleteFunc(slices.Clone(r.PullRequests), func(p PullRequest) bool { return p.Phase == "Done" })
	return r
}

// age is how long ago something was, as kubectl has it.
func (r Report) age(t metav1.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(0, r.Time.Sub(t.Time).Round(time.Second)))
}

func stateText(state, reason string) string {
	if reason == "" {
		return state
	}
	return fmt.Sprintf("%s (%s)", state, reason)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func count(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func (c *NodeCounts) total() string   { return c.text(func(c *NodeCounts) int { return c.Total }) }
func (c *NodeCounts) ready() string   { return c.text(func(c *NodeCounts) int { return c.Ready }) }
func (c *NodeCounts) drifted() string { return c.text(func(c *NodeCounts) int { return c.Drifted }) }

// text is one of the counts; - where nodes were not read.
func (c *NodeCounts) text(of func(*NodeCounts) int) string {
	if c == nil {
		return "-"
	}
	return strconv.Itoa(of(c))
}
