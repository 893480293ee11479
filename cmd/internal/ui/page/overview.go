package page

import (
	"cmp"
	"fmt"
	"hash/fnv"
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
	// Time is that of the documents. AsOf is that of the objects in them, and Clock its time of day; zero and empty where nothing was read.
	Time, AsOf metav1.Time
	Clock      string
}

func statusOf(r get.Report, interrupted *Interruption) statusModel {
	m := statusModel{Time: r.Time, AsOf: r.Time}
	if interrupted != nil {
		m.AsOf = metav1.NewTime(interrupted.Since)
	}
	m.Clock = clock(m.AsOf.Time, r.Time.Time)
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
	// NodeRows are those of at most maxNodes nodes, NodesLeft is how many more there are.
	NodeRows  []nodeRow
	NodesLeft int
	// Marks are what happened in the time of the timeline.
	Marks []markRow
	// Window is that of the timeline.
	Window  time.Duration
	Windows []time.Duration
	Ticks   []tick
	// Day is what was paid for in the last 24 hours, and RecordedUntil until when the history is; empty without one.
	Day           usageTotal
	RecordedUntil string
	Events        []eventRow
	EventsLeft    int
	Pulls         []pullRow
	PullsLeft     int
	DriftRows     []driftRow
	DriftLeft     int
}

func overviewOf(in Input) overviewModel {
	in.Report = in.Report.Priced(in.History)
	r := in.Report
	m := overviewModel{statusModel: statusOf(r, in.Interrupted), Report: r, Window: in.window(), Windows: Windows()}
	m.Ticks = ticksOf(r.Time.Time, m.Window)
	m.IdleUSD = r.IdleUSD()
	m.Attention = attentionOf(in)
	today, day := costsOf(in.History, r.Time.Time)
	m.Day, m.RecordedUntil = day, clock(in.History.Time.Time, r.Time.Time)
	for _, p := range r.Pools {
		m.PoolRows = append(m.PoolRows, poolRowOf(r, p, today))
	}
	nodes, running := firstNodes(r.Nodes), in.History.Running()
	for _, n := range nodes {
		row := nodeRowOf(n, r.Time.Time, r.Time.Time, m.Window)
		if recorded, found := running[n.NodeClaim]; found {
			row.Record = recordOf(recorded, r.Time.Time)
		}
		m.NodeRows = append(m.NodeRows, row)
	}
	terminated, left := terminatedNodes(in, m.Window, maxNodes-len(nodes))
	m.NodeRows, m.NodesLeft = append(m.NodeRows, terminated...), len(r.Nodes)-len(nodes)+left
	slices.SortStableFunc(m.NodeRows, func(a, b nodeRow) int { return cmp.Compare(a.Pool, b.Pool) })
	m.Marks = marksOf(in.History, r.Time.Time, m.Window)
	m.Events, m.EventsLeft = eventRows(in.History, r.Time.Time, m.Window, maxRecentEvents)
	m.DriftRows, m.DriftLeft = driftRows(in.History, r.Time.Time)
	pulls := pullRows(r, in.History, in.Namespace)
	m.Pulls = pulls[:min(len(pulls), maxPulls)]
	m.PullsLeft = len(pulls) - len(m.Pulls)
	m.Title = m.overviewTitle()
	return m
}

// maxNodes is how many nodes are on the page: their ages and timelines change with time, and are sent anew.
const maxNodes = 200

// firstNodes are at most maxNodes of the nodes, in their order: those that are not ready before those whose GPUs are idle, and these before
// the others, the youngest first.
func firstNodes(nodes []get.Node) []get.Node {
	if len(nodes) <= maxNodes {
		return nodes
	}
	rank := func(n get.Node) int {
		switch {
		case n.State != "Ready":
			return 0
		case n.GPUs.Idle != nil && *n.GPUs.Idle > 0:
			return 1
		}
		return 2
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(nodes[a]), rank(nodes[b])), nodes[b].Created.Compare(nodes[a].Created.Time))
	})
	order = order[:maxNodes]
	slices.Sort(order)
	out := make([]get.Node, 0, maxNodes)
	for _, i := range order {
		out = append(out, nodes[i])
	}
	return out
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
	return !slices.ContainsFunc(m.Report.Syncs, func(s get.Sync) bool { return !isCompared(s) || s.Drifted == string(metav1.ConditionTrue) })
}

// Age is how long ago something was.
func (m statusModel) Age(t metav1.Time) string { return age(m.Time.Time, t) }

// At is a time in UTC, of one that is a day ago with its date.
func (m statusModel) At(t metav1.Time) string { return clock(t.Time, m.Time.Time) }

// Recent are the events as the template of their table takes them.
func (m overviewModel) Recent() eventsModel { return eventsModel{Rows: m.Events, Window: m.Window} }

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
	// Today is what it has cost since the day began, UTC; empty where nothing is recorded.
	Today   string
	State   string
	Reason  string
	Message string
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

func poolRowOf(r get.Report, p get.Pool, today map[string]usageTotal) poolRow {
	row := poolRow{Pool: p, Path: pathOf("pools", p.Name), Gauge: gpuGaugeOf(p.GPUs), State: clean(p.State), Reason: clean(p.Reason), Message: clean(p.Message)}
	for _, l := range p.Limits {
		row.Limits = append(row.Limits, gaugeOf(l))
	}
	for _, d := range r.Drift {
		if d.Object == "NodePool.karpenter.sh/"+p.Name && len(d.Ignored) == 0 {
			row.Differences++
		}
	}
	if u, found := today[p.Name]; found {
		row.Today = u.Paid()
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
	Marks    []string
	Timeline lifeline
	// Record is what the history has of it.
	Record recordedLife
}

// PoolPath is the page of its NodePool.
func (row nodeRow) PoolPath() string { return pathOf("pools", row.Pool) }

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
	var out strings.Builder
	out.WriteString("/" + kind)
	for _, name := range names {
		if name == "" || len(name) > maxName || clean(name) != name {
			return "/"
		}
		out.WriteString("/" + url.PathEscape(name))
	}
	return out.String()
}

// shortName is a node's name without the domain of EC2, which all nodes of a cluster have in common.
func shortName(name string) string {
	host, domain, found := strings.Cut(name, ".")
	if found && (strings.HasSuffix(domain, ".compute.internal") || domain == "ec2.internal") {
		return host
	}
	return name
}

// QuotaGauges are the quotas.
func (m overviewModel) QuotaGauges() []gauge {
	var out []gauge
	for _, q := range m.Report.Quotas {
		out = append(out, gauge{Used: grouped(strconv.FormatInt(q.UsedVCPUs, 10)), Limit: grouped(strconv.FormatInt(q.LimitVCPUs, 10)), Resource: clean(q.Name), Percent: percent(float64(q.UsedVCPUs), float64(q.LimitVCPUs))})
	}
	return out
}

// PullConditions are how many pull requests are open, or why that is not known.
func (m overviewModel) PullConditions() syncConditions {
	conditions, more := pullConditions(m.Report)
	return syncConditions{conditions, more}
}

// DriftConditions are why it is not known what has drifted.
func (m overviewModel) DriftConditions() syncConditions {
	conditions, more := driftConditions(m.Report)
	return syncConditions{conditions, more}
}

// QuotasObserved is when AWS was read for the quotas; empty without any.
func (m overviewModel) QuotasObserved() string {
	if len(m.Report.Quotas) == 0 {
		return ""
	}
	return m.At(m.Report.Quotas[0].Observed)
}

// Favicon is the mark as SVG. Its colour is of the cluster's name, region and account, so that the windows of two clusters differ.
func Favicon(r get.Report) []byte {
	const degrees = 360
	h := fnv.New32a()
	_, _ = h.Write([]byte(statusOf(r, nil).titled())) // a hash takes everything
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><g fill="hsl(%d 55%% 42%%)"><rect x="1" y="1" width="6" height="6" rx="1.5"/><rect x="9" y="1" width="6" height="6" rx="1.5"/><rect x="1" y="9" width="6" height="6" rx="1.5"/></g></svg>`, h.Sum32()%degrees)
}
