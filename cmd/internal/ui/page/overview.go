package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/plural"
)

// statusModel is what every page has in its header.
type statusModel struct {
	Title           string
	Cluster, Region string
	Account         string
	// Time is when the objects were read, Clock the time of day of it.
	Time  metav1.Time
	Clock string
}

func statusOf(r get.Report) statusModel {
	m := statusModel{Time: r.Time, Clock: r.Time.UTC().Format("15:04:05")}
	if s := r.Summary; s != nil {
		m.Cluster, m.Region, m.Account = clean(s.Cluster), clean(s.Region), clean(s.Account)
	}
	return m
}

// titled is the title of a page about something: with the cluster, since one window must not be taken for another cluster's.
func (m statusModel) titled(about ...string) string {
	return cmp.Or(strings.Join(slices.DeleteFunc(append(about, m.Cluster, m.Region, m.Account), func(s string) bool { return s == "" }), " · "), "Poolwright")
}

// overviewModel is what the sections of the overview are rendered from.
type overviewModel struct {
	statusModel
	Report get.Report
	// IdleUSD is what the GPUs that no pod requests cost an hour; nil where it is not known.
	IdleUSD   *get.USD
	Attention []attentionRow
	PoolRows  []poolRow
	NodeRows  []nodeRow
	// Window is that of the timeline.
	Window  time.Duration
	Windows []time.Duration
	Ticks   []tick
}

func overviewOf(in Input) overviewModel {
	r := in.Report
	m := overviewModel{statusModel: statusOf(r), Report: r, Window: in.window(), Windows: Windows()}
	m.Ticks = ticksOf(r.Time.Time, m.Window)
	m.IdleUSD = idleUSD(r.Nodes)
	m.Attention = attentionOf(in)
	for _, p := range r.Pools {
		m.PoolRows = append(m.PoolRows, poolRowOf(r, p))
	}
	for _, n := range r.Nodes {
		m.NodeRows = append(m.NodeRows, nodeRowOf(n, r.Time.Time, r.Time.Time, m.Window))
	}
	for _, l := range in.Lives {
		row := nodeRowOf(l.Node, l.Ended, r.Time.Time, m.Window)
		row.Gone, row.State, row.Reason = true, "Ended", clean(l.EndReason)
		m.NodeRows = append(m.NodeRows, row)
	}
	slices.SortStableFunc(m.NodeRows, func(a, b nodeRow) int { return cmp.Compare(a.Pool, b.Pool) })
	m.Title = m.overviewTitle()
	return m
}

// overviewTitle is what the window of the overview is called: the price and what is idle first, since a tab has few characters.
func (m overviewModel) overviewTitle() string {
	var parts []string
	if s := m.Report.Summary; s != nil {
		if s.USDPerHour != nil {
			parts = append(parts, money(s.USDPerHour)+"/h")
		}
		if s.GPUs.Idle != nil && *s.GPUs.Idle > 0 {
			parts = append(parts, plural.Count(int(*s.GPUs.Idle), "idle GPU"))
		}
	}
	return m.titled(parts...)
}

// idleUSD adds up, by node, the share of its price that is of GPUs which no pod requests.
func idleUSD(nodes []get.Node) *get.USD {
	out := &get.USD{}
	for _, n := range nodes {
		if n.GPUs.Idle == nil || n.GPUs.Allocatable == nil {
			return nil
		}
		if *n.GPUs.Idle == 0 || *n.GPUs.Allocatable == 0 {
			continue
		}
		if n.USDPerHour == nil {
			return nil
		}
		share := float64(*n.GPUs.Idle) / float64(*n.GPUs.Allocatable)
		out.Least += n.USDPerHour.Least * share
		out.Most += n.USDPerHour.Most * share
		out.Approximate = out.Approximate || n.USDPerHour.Approximate
	}
	return out
}

// ReadySyncs is how many Syncs are ready.
func (m overviewModel) ReadySyncs() int {
	n := 0
	for _, s := range m.Report.Syncs {
		if s.Ready == string(metav1.ConditionTrue) {
			n++
		}
	}
	return n
}

// InSync is whether every Sync reports that nothing has drifted.
func (m overviewModel) InSync() bool {
	if !m.Report.SyncsRead() || len(m.Report.Syncs) == 0 {
		return false
	}
	return !slices.ContainsFunc(m.Report.Syncs, func(s get.Sync) bool { return s.Drifted != string(metav1.ConditionFalse) })
}

// Age is how long ago something was.
func (m statusModel) Age(t metav1.Time) string { return age(m.Time.Time, t) }

// gauge is how much of something is used.
type gauge struct {
	// Used and Limit are as Kubernetes writes quantities, Resource is what they are of.
	Used, Limit, Resource string
	// Percent is the share that is used.
	Percent float64
}

// poolRow is a row of the table of pools.
type poolRow struct {
	get.Pool
	Path   string
	Gauge  gpuGauge
	Limits []gauge
	// Differences counts the objects of the pool that are not as declared.
	Differences int
	State       string
	Reason      string
	Message     string
}

// gpuGauge are the parts of the GPUs of nodes, in percent.
type gpuGauge struct {
	Any             bool
	Requested, Idle float64
}

func gpuGaugeOf(g get.GPUs) gpuGauge {
	if g.Allocatable == nil || g.Requested == nil || g.Idle == nil || *g.Allocatable == 0 {
		return gpuGauge{}
	}
	all := float64(*g.Allocatable)
	idle := percent(float64(*g.Idle), all)
	return gpuGauge{Any: true, Requested: min(percent(float64(*g.Requested), all), 100-idle), Idle: idle}
}

func poolRowOf(r get.Report, p get.Pool) poolRow {
	row := poolRow{Pool: p, Path: pathOf("pools", p.Name), Gauge: gpuGaugeOf(p.GPUs), State: clean(p.State), Reason: clean(p.Reason), Message: clean(p.Message)}
	for _, l := range p.Limits {
		row.Limits = append(row.Limits, gaugeOf(l))
	}
	for _, d := range r.Drift {
		if d.Object == "NodePool.karpenter.sh/"+p.Name && len(d.Ignored) == 0 {
			row.Differences++
		}
	}
	return row
}

// nodeRow is a row of the table of nodes.
type nodeRow struct {
	// Name is the short one, FullName that of the object.
	Name, FullName, Path, Pool string
	InstanceType               string
	Spot                       bool
	CapacityType               string
	Zone                       string
	GPUs                       get.GPUs
	Pods                       *int
	USDPerHour                 *get.USD
	Created                    metav1.Time
	State, Reason              string
	Message                    string
	// Class is that of the state.
	Class string
	// Marks are Drifted and SchedulingDisabled.
	Marks []string
	// Gone is whether it is there no more.
	Gone     bool
	Timeline lifeline
}

func nodeRowOf(n get.Node, ends, now time.Time, window time.Duration) nodeRow {
	row := nodeRow{
		Name: shortName(clean(n.Name)), FullName: clean(n.Name), Path: pathOf("nodes", cmp.Or(n.NodeClaim, n.Name)), Pool: clean(n.NodePool), InstanceType: clean(n.InstanceType),
		Spot: n.CapacityType == "spot", CapacityType: clean(n.CapacityType), Zone: clean(n.Zone), GPUs: n.GPUs, Pods: n.Pods, USDPerHour: n.USDPerHour,
		Created: n.Created, State: clean(n.State), Reason: clean(n.Reason), Message: clean(n.Message), Class: classOf(n.State),
		Timeline: timelineOf(n.Phases, ends, now, window),
	}
	if n.Drifted != "" {
		row.Marks = append(row.Marks, "Drifted")
	}
	if n.Unschedulable {
		row.Marks = append(row.Marks, "SchedulingDisabled")
	}
	return row
}

// pathOf is the path of an object's page. Of a name that no object has, it is that of the overview.
func pathOf(kind string, names ...string) string {
	// The API server accepts no longer ones.
	const maxName = 253
	out := "/" + kind
	for _, name := range names {
		if name == "" || len(name) > maxName || clean(name) != name {
			return "/"
		}
		out += "/" + url.PathEscape(name)
	}
	return out
}

// shortName is a node's name without the domain of EC2, which all nodes of a cluster have in common.
func shortName(name string) string {
	host, domain, found := strings.Cut(name, ".")
	if found && (strings.HasSuffix(domain, ".compute.internal") || domain == "ec2.internal") {
		return host
	}
	return name
}

// attentionRow is something that a person should know of.
type attentionRow struct {
	// Sign is that of its severity.
	Sign, Class string
	Text        string
	// Path and Link are a page with more about it; empty where there is none.
	Path, Link string
	// Command is what a person can run; empty where there is nothing to run.
	Command string
}

const (
	// maxAttention is how many rows of one kind there are.
	maxAttention = 5
	// The signs are of fonts that every system has; emoji are not.
	signError   = "✕"
	signWarning = "⚠"
	signNote    = "○"
	signGood    = "✓"
)

// attentionOf lists what is not as it should be, the most severe first.
func attentionOf(in Input) []attentionRow {
	r := in.Report
	var out []attentionRow
	if i := in.Interrupted; i != nil {
		out = append(out, attentionRow{Sign: signError, Class: "error", Text: fmt.Sprintf("The cluster could not be read since %s UTC, and the page has the state of then: %s", i.Since.UTC().Format(time.TimeOnly), clean(i.Message))})
	}
	out = append(out, syncAttention(r)...)
	out = append(out, podAttention(r)...)
	for _, p := range r.Pools {
		if p.State == "Ready" || p.State == "Terminating" {
			continue
		}
		out = append(out, attentionRow{Sign: signWarning, Class: "warning", Text: fmt.Sprintf("NodePool %s is %s: %s", clean(p.Name), clean(p.State), cmp.Or(clean(p.Message), clean(p.Reason))), Path: pathOf("pools", p.Name), Link: "why"})
	}
	for _, n := range r.Nodes {
		if n.State == "NotReady" {
			out = append(out, attentionRow{Sign: signWarning, Class: "warning", Text: fmt.Sprintf("Node %s is NotReady: %s", clean(n.Name), cmp.Or(clean(n.Message), clean(n.Reason))), Path: pathOf("nodes", n.Name), Link: "why"})
		}
	}
	for _, u := range r.NotRead {
		out = append(out, attentionRow{Sign: signNote, Class: "note", Text: "Not read: " + clean(u.Message)})
	}
	severity := map[string]int{"error": 0, "warning": 1, "note": 2}
	slices.SortStableFunc(out, func(a, b attentionRow) int { return cmp.Compare(severity[a.Class], severity[b.Class]) })
	return out
}

// syncAttention lists the Syncs that are not ready, or suspended.
func syncAttention(r get.Report) []attentionRow {
	var out []attentionRow
	for _, s := range r.Syncs {
		switch {
		case s.Suspended:
			out = append(out, attentionRow{Sign: signNote, Class: "note", Text: "Sync " + clean(s.Name) + " is suspended: " + cmp.Or(clean(s.SuspendReason), "no reason was given"), Command: "poolwright resume " + clean(s.Name) + " -n " + clean(s.Namespace)})
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
	return out
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

// QuotaGauges are the quotas.
func (m overviewModel) QuotaGauges() []gauge {
	var out []gauge
	for _, q := range m.Report.Quotas {
		out = append(out, gauge{Used: grouped(strconv.FormatInt(q.UsedVCPUs, 10)), Limit: grouped(strconv.FormatInt(q.LimitVCPUs, 10)), Resource: clean(q.Name), Percent: percent(float64(q.UsedVCPUs), float64(q.LimitVCPUs))})
	}
	return out
}
