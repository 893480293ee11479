package get

import (
	"cmp"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Objects are what was read of a cluster.
type Objects struct {
	// Cluster is the one that decides; nil where there is none.
	Cluster *v1alpha1.Cluster
	Syncs   []v1alpha1.Sync
	// Selectors are which Syncs of a namespace its controller reconciles; of a namespace that has none here that is not known.
	Selectors map[string]labels.Selector
	Plugins   []v1alpha1.DevicePlugin
	Pools     []karpv1.NodePool
	Claims    []karpv1.NodeClaim
	Nodes     []corev1.Node
	Pods      []Pod
	// Events are Karpenter's on Nodes and NodeClaims, of why it does not disrupt them.
	Events []corev1.Event
	// IncompleteKinds are the kinds that were not, or not wholly, read.
	IncompleteKinds []IncompleteKind
}

// Pod is what is read of a pod that has not ended.
type Pod struct {
	Namespace, Name string
	// Created is when it was created.
	Created metav1.Time
	// Node is the one that it is bound to; empty while it is pending.
	Node string
	// GPUs are the resources of NVIDIA's that it requests.
	GPUs gpu.Resources
	// DaemonSet is true for a pod that comes and goes with its node.
	DaemonSet bool
	// DoNotDisrupt is true for a pod that keeps Karpenter from disrupting its node.
	DoNotDisrupt bool
}

// IncompleteKind is a kind of which not all objects are in a report.
type IncompleteKind struct {
	// Kind is the plural of the kind, as kubectl takes it.
	Kind string `json:"kind"`
	// Reason is Forbidden, NotInstalled, TooMany or Failed.
	Reason string `json:"reason"`
	// Message is what was found, and what a person can do.
	Message string `json:"message"`
}

// The values of IncompleteKind.Reason.
const (
	// Forbidden is a kind that the user has no permission to list.
	Forbidden = "Forbidden"
	// notInstalled is a kind that the API server does not have.
	notInstalled = "NotInstalled"
	// tooMany is a kind with more objects than are read.
	tooMany = "TooMany"
	// Failed is a kind whose list failed for another reason.
	Failed = "Failed"
)

// Report is what get prints: all sections of it, or the one that was requested, which is never null. In JSON, fields
// are added, never renamed or given another meaning.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	// Time is when the objects were read.
	Time         metav1.Time   `json:"time"`
	Summary      *Summary      `json:"summary,omitempty"`
	Syncs        []Sync        `json:"syncs,omitzero"`
	Pools        []Pool        `json:"pools,omitzero"`
	Nodes        []Node        `json:"nodes,omitzero"`
	PullRequests []PullRequest `json:"pullRequests,omitzero"`
	Drift        []Difference  `json:"drift,omitzero"`
	Quotas       []Quota       `json:"quotas,omitzero"`
	// PendingPods are those that request GPUs and have no node, the oldest first, at most 100 of them.
	PendingPods     []PendingPod     `json:"pendingPods,omitzero"`
	IncompleteKinds []IncompleteKind `json:"incompleteKinds,omitempty"`
}

// SyncsRead reports whether all Syncs of the namespace were read: without them, what they report is not known.
func (r Report) SyncsRead() bool { return r.read(kindSyncs) }

// PoolsRead reports whether all NodePools were read.
func (r Report) PoolsRead() bool { return r.read(kindPools) }

func (r Report) read(kind string) bool {
	return !slices.ContainsFunc(r.IncompleteKinds, func(u IncompleteKind) bool { return u.Kind == kind })
}

// PendingPod is a pod that requests GPUs and has no node.
type PendingPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// GPUs is how many it requests, or shares of them.
	GPUs    int64       `json:"gpus"`
	Created metav1.Time `json:"created"`
}

// maxPendingPods is how many pending pods a report lists; its summary counts all of them.
const maxPendingPods = 100

// pendingPods are those that request GPUs and have no node, the oldest first.
func pendingPods(pods []Pod) []PendingPod {
	out := []PendingPod{}
	for _, p := range pods {
		if p.Node == "" && len(p.GPUs) > 0 {
			out = append(out, PendingPod{Namespace: p.Namespace, Name: p.Name, GPUs: total(p.GPUs), Created: p.Created})
		}
	}
	slices.SortFunc(out, func(a, b PendingPod) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// GPUs are numbers of GPUs, or of shares where a DevicePlugin shares them, as pods request them. What
// was not read is absent.
type GPUs struct {
	// Allocatable is how many the nodes advertise.
	Allocatable *int64 `json:"allocatable,omitempty"`
	// Requested is how many the pods on the nodes request.
	Requested *int64 `json:"requested,omitempty"`
	// Idle is how many pods could still request: of each resource of each node that is ready and schedulable what is not requested.
	// It is not the difference of the two sums, since what one node or resource has too few of, another does not have.
	Idle *int64 `json:"idle,omitempty"`
}

// add adds up two numbers of GPUs.
func (g GPUs) add(other GPUs) GPUs {
	return GPUs{Allocatable: sum(g.Allocatable, other.Allocatable), Requested: sum(g.Requested, other.Requested), Idle: sum(g.Idle, other.Idle)}
}

// sum is that of two numbers; of what is not known, the sum is not known either.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	n := *a + *b
	return &n
}

// Total is what nodes are together. What was not read is absent.
type Total struct {
	// Nodes counts them, those among them of which there is only a NodeClaim, too.
	Nodes *NodeCounts `json:"nodes,omitempty"`
	GPUs  GPUs        `json:"gpus"`
	// USDPerHour is what they cost; absent where a price is not known.
	USDPerHour *USD `json:"usdPerHour,omitempty"`
}

// NodeCounts are numbers of nodes.
type NodeCounts struct {
	Total int `json:"total"`
	Ready int `json:"ready"`
	// Drifted counts those that Karpenter is to replace.
	Drifted int `json:"drifted"`
}

// total adds up the nodes of a pool, or with an empty name of all.
func (x *indexed) total(nodes []Node, pool string) Total {
	var t Total
	if !x.claimsRead && !x.nodesRead {
		return t
	}
	t.Nodes, t.USDPerHour, t.GPUs.Allocatable = &NodeCounts{}, &USD{}, new(int64)
	if x.podsRead {
		t.GPUs.Requested, t.GPUs.Idle = new(int64), new(int64)
	}
	for _, n := range nodes {
		if pool != "" && n.NodePool != pool {
			continue
		}
		t.Nodes.Total++
		t.GPUs, t.USDPerHour = t.GPUs.add(n.GPUs), t.USDPerHour.add(n)
		if n.Ready() {
			t.Nodes.Ready++
		}
		if n.Drifted != "" {
			t.Nodes.Drifted++
		}
	}
	return t
}

// Summary is the cluster in one line.
type Summary struct {
	// Cluster, Region, Account and Engine are of the Cluster object; empty without one.
	Cluster string `json:"cluster,omitempty"`
	Region  string `json:"region,omitempty"`
	Account string `json:"account,omitempty"`
	Engine  string `json:"engine,omitempty"`
	// Ready is the status of the Cluster's condition Ready.
	Ready string `json:"ready,omitempty"`
	// Total is that of the nodes of all pools.
	Total `json:",inline"`
	// IdleUSDPerHour is the part of what they cost that is of GPUs which no pod requests; absent where it is not known.
	IdleUSDPerHour *USD `json:"idleUSDPerHour,omitempty"`
	// PendingGPUPods counts the pods that request GPUs and have no node; absent where pods were not read.
	PendingGPUPods *int `json:"pendingGPUPods,omitempty"`
	// PriceDate is the date of the catalog, whose price a node has that the history has none of.
	PriceDate string `json:"priceDate,omitempty"`
}

func reportType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: document.APIVersion, Kind: "Overview"}
}

// NewReport makes the report of a cluster's objects at a time, with the catalog's prices: Priced has those of the history.
func NewReport(o Objects, now time.Time, types *catalog.Catalog) Report {
	r := Report{TypeMeta: reportType(), Time: metav1.NewTime(now), IncompleteKinds: o.IncompleteKinds}
	r.Syncs, r.PullRequests = syncsOf(o.Syncs, o.Selectors), pullRequestsOf(o.Syncs)
	r.Drift, r.Quotas = driftOf(o), quotasOf(o.Cluster)
	x := index(o, now, types)
	r.Nodes = x.nodes()
	r.Pools = x.pools(r.Nodes)
	pending := pendingPods(o.Pods)
	r.Summary = x.summary(r.Nodes, pending)
	r.PendingPods = pending[:min(len(pending), maxPendingPods)]
	return r
}

// summary adds up the nodes.
func (x *indexed) summary(nodes []Node, pending []PendingPod) *Summary {
	s := &Summary{Total: x.total(nodes, ""), PriceDate: x.types.PriceDate()}
	if c := x.Cluster; c != nil {
		s.Cluster, s.Region, s.Account, s.Engine = c.Spec.Name, c.Spec.Region, c.Spec.Account, string(c.Spec.Engine.Mode)
		s.Ready = statusOf(c, fluxmeta.ReadyCondition)
	}
	if s.Nodes != nil {
		s.IdleUSDPerHour = (&Report{Nodes: nodes}).IdleUSD()
	}
	if x.podsRead {
		s.PendingGPUPods = new(int)
		*s.PendingGPUPods = len(pending)
	}
	return s
}
