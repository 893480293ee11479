package get

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// statusCondition is the one of Karpenter's kinds.
type statusCondition = status.Condition

func TestReportsReadAsTheirGoldens(t *testing.T) {
	for name, test := range map[string]struct {
		section    sectionName
		output     string
		namespaces bool
	}{
		"overview":      {section: sectionAll},
		"overview-wide": {section: sectionAll, output: "wide", namespaces: true},
		"overview-name": {section: sectionAll, output: "name"},
		"pools":         {section: sectionPools},
		"pools-json":    {section: sectionPools, output: "json"},
		"nodes":         {section: sectionNodes},
		"nodes-wide":    {section: sectionNodes, output: "wide"},
		"syncs":         {section: sectionSyncs},
		"pullrequests":  {section: sectionPulls},
		"drift":         {section: sectionDrift},
		"quota":         {section: sectionQuota},
		"quota-yaml":    {section: sectionQuota, output: "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := NewReport(newObjects(), now(), types(t)).write(&out, test.section, test.output, test.namespaces); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/"+name+".golden", out.String())
		})
	}
}

func TestWhatIsNotKnownIsNoNumber(t *testing.T) {
	o := newObjects()
	o.Pods = nil
	o.IncompleteKinds = []IncompleteKind{{Kind: kindPods, Reason: Forbidden}}
	r := NewReport(o, now(), types(t))
	if r.Summary.GPUs.Requested != nil || r.Summary.PendingGPUPods != nil || r.Summary.GPUs.Idle != nil {
		t.Errorf("without pods, requests are %+v", r.Summary)
	}
	for _, n := range r.Nodes {
		if n.Ready() && (n.Reason == "Empty" || n.Reason == "NotEmpty") {
			t.Errorf("without pods, node %s stays because of %s", n.Name, n.Reason)
		}
	}
	// The pool general has an instance type that the catalog does not have.
	for _, p := range r.Pools {
		if known := p.USDPerHour != nil; known != (p.Name != "general") {
			t.Errorf("what pool %s costs is %v", p.Name, p.USDPerHour)
		}
	}
	if got := r.Summary.USDPerHour.String(); got != "-" {
		t.Errorf("all costs %s, though a price is not known", got)
	}
}

func TestAPoolWithoutNodesCostsNothing(t *testing.T) {
	o := Objects{Pools: []karpv1.NodePool{nodePool("gpu")}}
	if got := NewReport(o, now(), types(t)).Pools[0].USDPerHour.String(); got != "0.00" {
		t.Errorf("a pool without nodes costs %s", got)
	}
	o.IncompleteKinds = []IncompleteKind{{Kind: kindClaims, Reason: Forbidden}, {Kind: kindNodes, Reason: Forbidden}}
	r := NewReport(o, now(), types(t))
	if p := r.Pools[0]; p.USDPerHour != nil || p.Nodes != nil || p.GPUs.Allocatable != nil {
		t.Errorf("a pool whose nodes were not read has %+v", p.Total)
	}
	var out bytes.Buffer
	if err := r.write(&out, sectionPools, "json", false); err != nil {
		t.Fatal(err)
	}
	var document struct{ Pools []map[string]any }
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	if _, found := document.Pools[0]["usdPerHour"]; found {
		t.Errorf("a price that is not known is in %s", out.String())
	}
}

func TestSettingsOfAPoolThatKeepItsNodes(t *testing.T) {
	for name, test := range map[string]struct {
		pool func(*karpv1.NodePoolSpec)
		pods int
		want string
	}{
		"none, for a node with pods": {func(*karpv1.NodePoolSpec) {}, 1, ""},
		"none, for an empty node":    {func(*karpv1.NodePoolSpec) {}, 0, "consolidateAfter has not passed"},
		"never, for a node with pods": {func(s *karpv1.NodePoolSpec) {
			s.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
		}, 1, "consolidateAfter of its pool is Never"},
		"never, for an empty node": {func(s *karpv1.NodePoolSpec) {
			s.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
		}, 0, "consolidateAfter of its pool is Never"},
		"only empty nodes, for a node with pods":      {func(s *karpv1.NodePoolSpec) { s.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty }, 1, "consolidationPolicy of its pool is WhenEmpty"},
		"only empty nodes, for one that is":           {func(s *karpv1.NodePoolSpec) { s.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty }, 0, "consolidateAfter has not passed"},
		"a number of replicas, of which it is a part": {func(s *karpv1.NodePoolSpec) { s.Replicas = new(int64) }, 0, "its pool has a number of replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			p := nodePool("gpu")
			test.pool(&p.Spec)
			o := Objects{Pools: []karpv1.NodePool{p}, Claims: []karpv1.NodeClaim{claim("x", "gpu", "g5.xlarge", "spot")}, Nodes: []corev1.Node{node("x", "1")}}
			for range test.pods {
				o.Pods = append(o.Pods, Pod{Node: "ip-x"})
			}
			if got := NewReport(o, now(), types(t)).Nodes[0].Message; got != test.want {
				t.Errorf("it stays because %q, not %q", got, test.want)
			}
		})
	}
}

// event is one of Karpenter's.
func event(kind, name, reason string, age time.Duration) corev1.Event {
	return corev1.Event{Reason: reason, Message: "because", LastTimestamp: ago(age), InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}}
}

func TestTheNewestEventCounts(t *testing.T) {
	old, newest := event("Node", "a", reasonBlocked, 2*time.Minute), event("Node", "a", reasonBlocked, time.Minute)
	newest.Message = "since then"
	for _, events := range [][]corev1.Event{{old, newest}, {newest, old}} {
		if got := messages(events, reasonBlocked, now())["Node/a"]; got != "since then" {
			t.Errorf("the message is %q", got)
		}
	}
}

func TestStatesOfANode(t *testing.T) {
	type outcome struct{ state, reason string }
	drifted := condition(karpv1.ConditionTypeDrifted, metav1.ConditionTrue, "AMIDrift", "")
	for name, test := range map[string]struct {
		claim   func(*karpv1.NodeClaim)
		node    func(*corev1.Node)
		pods    []Pod
		without bool
		unread  []IncompleteKind
		events  []corev1.Event
		want    outcome
	}{
		"a node without pods is empty":                  {want: outcome{"Ready", "Empty"}},
		"a DaemonSet's pod keeps no node":               {pods: []Pod{{Node: "ip-x", DaemonSet: true}}, want: outcome{"Ready", "Empty"}},
		"a pod keeps a node":                            {pods: []Pod{{Node: "ip-x"}}, want: outcome{"Ready", "NotEmpty"}},
		"a pod that must not be disrupted keeps a node": {pods: []Pod{{Node: "ip-x", DoNotDisrupt: true}}, want: outcome{"Ready", "DoNotDisrupt"}},
		"a drifted node has Karpenter's reason":         {claim: drifted, want: outcome{"Ready", "AMIDrift"}},
		"a node that must not be disrupted":             {node: func(n *corev1.Node) { n.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} }, want: outcome{"Ready", "DoNotDisrupt"}},
		"a cordoned node":                               {node: func(n *corev1.Node) { n.Spec.Unschedulable = true }, want: outcome{"Ready", "Empty"}},
		"a node whose kubelet does not report": {node: func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = "Unknown", "NodeStatusUnknown"
		}, want: outcome{"NotReady", "NodeStatusUnknown"}},
		"a claim without an instance":                        {claim: launching("InsufficientCapacity", ""), without: true, want: outcome{"Launching", "InsufficientCapacity"}},
		"an instance that has not registered":                {claim: condition(karpv1.ConditionTypeRegistered, metav1.ConditionUnknown, "NodeNotFound", ""), want: outcome{"Registering", "NodeNotFound"}},
		"a claim that is being deleted":                      {claim: deleted, want: outcome{"Terminating", ""}},
		"a claim whose Node is gone":                         {without: true, want: outcome{"NotReady", "NodeNotFound"}},
		"a claim whose Node the user may not read":           {without: true, unread: []IncompleteKind{{Kind: kindNodes, Reason: Forbidden}}, want: outcome{"Ready", ""}},
		"a claim without Node where the API server has none": {without: true, unread: []IncompleteKind{{Kind: kindNodes, Reason: notInstalled}}, want: outcome{"NotReady", "NodeNotFound"}},
		"Karpenter blocks the disruption":                    {events: []corev1.Event{event("Node", "ip-x", reasonBlocked, time.Minute)}, claim: drifted, want: outcome{"Ready", reasonBlocked}},
		"the event is of the NodeClaim":                      {events: []corev1.Event{event("NodeClaim", "x", reasonBlocked, time.Minute)}, want: outcome{"Ready", reasonBlocked}},
		"its GPU has failed": {node: func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Reason: "NvidiaXID79Error"})
		}, want: outcome{"Ready", "NvidiaXID79Error"}},
		"its GPU works": {node: func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "AcceleratedHardwareReady", Status: corev1.ConditionTrue, Reason: "NvidiaXID79Error"})
		}, want: outcome{"Ready", "Empty"}},
		"an event that holds no more":                         {events: []corev1.Event{event("Node", "ip-x", reasonBlocked, time.Hour)}, want: outcome{"Ready", "Empty"}},
		"an event of another node":                            {events: []corev1.Event{event("Node", "x", reasonBlocked, time.Minute)}, want: outcome{"Ready", "Empty"}},
		"no cheaper node for its pods":                        {events: []corev1.Event{event("Node", "ip-x", reasonUnconsolidatable, time.Minute)}, pods: []Pod{{Node: "ip-x"}}, want: outcome{"Ready", reasonUnconsolidatable}},
		"an empty node is no matter of price":                 {events: []corev1.Event{event("Node", "ip-x", reasonUnconsolidatable, time.Minute)}, want: outcome{"Ready", "Empty"}},
		"a node of which it is not known whether it has pods": {unread: []IncompleteKind{{Kind: kindPods, Reason: tooMany}}, want: outcome{"Ready", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Objects{Claims: []karpv1.NodeClaim{claim("x", "gpu", "g5.xlarge", "spot")}, Nodes: []corev1.Node{node("x", "1")}, Pods: test.pods, IncompleteKinds: test.unread, Events: test.events}
			if test.claim != nil {
				test.claim(&o.Claims[0])
			}
			if test.node != nil {
				test.node(&o.Nodes[0])
			}
			if test.without {
				o.Nodes = nil
			}
			nodes := NewReport(o, now(), types(t)).Nodes
			if got := (outcome{nodes[0].State, nodes[0].Reason}); got != test.want {
				t.Errorf("the node is %+v, not %+v", got, test.want)
			}
		})
	}
}

func TestANodeWithoutClaimIsOfItsPool(t *testing.T) {
	o := Objects{Nodes: []corev1.Node{node("x", "2", func(n *corev1.Node) { n.Labels[corev1.LabelInstanceTypeStable] = "g5.xlarge" })}, Pools: []karpv1.NodePool{nodePool("gpu")}}
	r := NewReport(o, now(), types(t))
	if p := r.Pools[0]; p.Nodes.Total != 1 || *p.GPUs.Allocatable != 2 || p.USDPerHour != nil {
		t.Errorf("its pool has %+v", p.Total)
	}
}

func TestPrices(t *testing.T) {
	for name, test := range map[string]struct{ region, instanceType, capacityType, want string }{
		"on demand":                             {"us-east-1", "g4dn.xlarge", "on-demand", "0.53"},
		"reserved costs what on demand does":    {"us-east-1", "g4dn.xlarge", "reserved", "0.53"},
		"another region's price is approximate": {"eu-west-1", "g4dn.xlarge", "on-demand", "~0.53"},
		"spot of another region":                {"eu-west-1", "g4dn.xlarge", "spot", "~0.05-0.53"},
		"spot is a range":                       {"us-east-1", "g4dn.xlarge", "spot", "0.05-0.53"},
		"a type that the catalog does not have": {"us-east-1", "x99.huge", "on-demand", "-"},
		"a region with a price list of its own": {"cn-north-1", "g4dn.xlarge", "on-demand", "-"},
		"a region that is not known":            {"", "g4dn.xlarge", "on-demand", "-"},
		"an instance that was not launched yet": {"us-east-1", "", "spot", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := priceOf(types(t), test.region, test.instanceType, test.capacityType).String(); got != test.want {
				t.Errorf("costs %s, not %s", got, test.want)
			}
		})
	}
}

func TestTheSummaryHasWhatIdleGPUsCost(t *testing.T) {
	o := Objects{
		Cluster: &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Region: "us-east-1"}},
		Claims:  []karpv1.NodeClaim{claim("x", "gpu", "g4dn.12xlarge", "on-demand")}, Nodes: []corev1.Node{node("x", "4")}, Pods: []Pod{{Node: "ip-x", GPUs: gpu.Resources{gpu.Resource: 3}}},
	}
	s := NewReport(o, now(), types(t)).Summary
	if got, all := s.IdleUSDPerHour, s.USDPerHour; got == nil || all.Max == 0 || got.Max != all.Max/4 {
		t.Errorf("one of four GPUs costs %v of %v", got, all)
	}
	o.IncompleteKinds = []IncompleteKind{{Kind: kindPods, Reason: Forbidden}}
	if got := NewReport(o, now(), types(t)).Summary.IdleUSDPerHour; got != nil {
		t.Errorf("without pods, idle GPUs cost %v", got)
	}
}

func TestSharesOfGPUsAreCounted(t *testing.T) {
	shared := node("x", "0", func(n *corev1.Node) {
		n.Status.Allocatable[gpu.SharedResource] = resource.MustParse("40")
	})
	o := Objects{Claims: []karpv1.NodeClaim{claim("x", "gpu", "g4dn.12xlarge", "on-demand")}, Nodes: []corev1.Node{shared}, Pods: []Pod{{Node: "ip-x", GPUs: gpu.Resources{gpu.SharedResource: 3}}, {Node: "ip-x", GPUs: gpu.Resources{gpu.SharedResource: 1}}}}
	if n := NewReport(o, now(), types(t)).Nodes[0]; *n.GPUs.Allocatable != 40 || *n.GPUs.Requested != 4 || *n.GPUs.Idle != 36 {
		t.Errorf("the node has %+v", n.GPUs)
	}
}

// A pod can get only what one node that takes pods has left of one resource.
func TestIdleGPUsAreThoseThatAPodCouldGet(t *testing.T) {
	offers := func(name string, count string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(count) }
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	unready := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	}
	for name, test := range map[string]struct {
		change []func(*corev1.Node)
		pods   gpu.Resources
		want   int64
	}{
		"what is not requested":                             {nil, gpu.Resources{"nvidia.com/gpu": 1}, 3},
		"none of a node that is cordoned":                   {[]func(*corev1.Node){cordoned}, nil, 0},
		"none of a node that is not ready":                  {[]func(*corev1.Node){unready}, nil, 0},
		"of each resource what is not requested":            {[]func(*corev1.Node){offers("nvidia.com/mig-1g.5gb", "2")}, gpu.Resources{"nvidia.com/gpu": 4}, 2},
		"none of a resource that it does not advertise yet": {[]func(*corev1.Node){offers("nvidia.com/gpu", "0"), offers("nvidia.com/mig-1g.5gb", "2")}, gpu.Resources{"nvidia.com/gpu": 4}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			x, full := node("x", "4", test.change...), node("y", "0")
			o := Objects{Claims: []karpv1.NodeClaim{claim("x", "gpu", "g4dn.12xlarge", "on-demand"), claim("y", "gpu", "g4dn.12xlarge", "on-demand")}, Nodes: []corev1.Node{x, full}}
			o.Pods = []Pod{{Node: "ip-x", GPUs: test.pods}, {Node: "ip-y", GPUs: gpu.Resources{"nvidia.com/gpu": 2}}}
			if r := NewReport(o, now(), types(t)); *r.Summary.GPUs.Idle != test.want || *r.Nodes[0].GPUs.Idle != test.want {
				t.Errorf("%d are idle, %d of the node, want %d", *r.Summary.GPUs.Idle, *r.Nodes[0].GPUs.Idle, test.want)
			}
		})
	}
}

func TestAPriceBelowACentIsNotNothing(t *testing.T) {
	for want, price := range map[string]*USD{
		"0.00": {}, "<0.01": {Min: 0.0004, Max: 0.0042}, "~<0.01-0.05": {Min: 0.0042, Max: 0.046, Approximate: true}, "0.01-0.10": {Min: 0.01, Max: 0.1}, "-": nil,
	} {
		if got := price.String(); got != want {
			t.Errorf("%+v is %s, want %s", price, got, want)
		}
	}
}

// What Git, AWS or a forge wrote must not reach a terminal as it is.
func TestTextsOfOthersAreSafeInATerminal(t *testing.T) {
	const text, safe = "\x1b[31mred\x1b]0;title\x07", `\x1b[31mred\x1b]0;title\a`
	o := newObjects()
	o.Syncs = []v1alpha1.Sync{readySync("dev", func(s *v1alpha1.Sync) {
		s.Spec.Suspend, s.Annotations = true, map[string]string{v1alpha1.SuspendReasonAnnotation: text}
		s.Status.Conditions[0].Message = text
		s.Status.Pending = []v1alpha1.PendingChange{{Object: text, Reason: text, Source: text}}
		s.Status.PullRequests = &v1alpha1.PullRequestsStatus{Items: []v1alpha1.PullRequestStatus{{Phase: "Planned", Headline: text}}}
	})}
	o.Cluster.Status.AWS = &v1alpha1.AWSStatus{
		Differences: []v1alpha1.Difference{{Resource: text, Message: text}}, Unknown: []v1alpha1.UnknownResource{{Resource: text, Reason: text}},
		Quotas: []v1alpha1.Quota{{Name: text}},
	}
	condition(karpv1.ConditionTypeLaunched, metav1.ConditionUnknown, text, text)(&o.Claims[0])
	condition(karpv1.ConditionTypeDrifted, metav1.ConditionTrue, text, text)(&o.Claims[0])
	o.Pools[0].Status.Conditions = []statusCondition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: text, Message: text}}
	for _, output := range []string{"wide", "json", "yaml"} {
		var out bytes.Buffer
		if err := NewReport(o, now(), types(t)).write(&out, sectionAll, output, false); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(out.Bytes(), "\x1b\x07") || bytes.Contains(out.Bytes(), []byte(`\u001b`)) {
			t.Errorf("-o %s prints a control sequence:\n%s", output, out.String())
		}
	}
	if got := NewReport(o, now(), types(t)).Syncs[0].Message; got != safe {
		t.Errorf("%q is %q", text, got)
	}
}

func TestAgesAreThoseOfKubectl(t *testing.T) {
	r := Report{Time: metav1.NewTime(now())}
	for want, at := range map[string]metav1.Time{"-": {}, "0s": metav1.NewTime(now().Add(time.Minute)), "90s": ago(90 * time.Second), "3d": ago(72 * time.Hour)} {
		if got := r.age(at); got != want {
			t.Errorf("%v is %s old, not %s", at, got, want)
		}
	}
}

func TestDriftHasWhatIsIgnored(t *testing.T) {
	var got []Difference
	for _, d := range driftOf(newObjects()) {
		if d.Ignored != nil {
			got = append(got, d)
		}
	}
	want := []Difference{{
		Owner: "Sync poolwright-system/edge", Object: "Deployment.apps/models/web", Reason: "ignored: spec.replicas, spec.paused",
		Source: "clusters/edge/web.yaml:4", Ignored: []string{"spec.replicas", "spec.paused"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestASyncThatIsRolledBackIsListedWithItsRevisionAndReason(t *testing.T) {
	for _, tt := range []struct{ reason, message string }{
		{"nodes\x1b[31m hang", `rolled back to main@e15a32f: nodes\x1b[31m hang; applied revision`},
		{"", "rolled back to main@e15a32f; applied revision"},
	} {
		o := newObjects()
		o.Syncs = []v1alpha1.Sync{readySync("dev", func(s *v1alpha1.Sync) {
			s.Annotations = map[string]string{v1alpha1.RollbackAnnotation: "e15a32f0000000000000000000000000000000aa", v1alpha1.RollbackReasonAnnotation: tt.reason}
		})}
		for output, want := range map[string][]string{"": {tt.message}, "json": {`"rolledBackTo": "main@sha1:e15a32f0000000000000000000000000000000aa"`}} {
			var out bytes.Buffer
			if err := NewReport(o, now(), types(t)).write(&out, sectionAll, output, false); err != nil {
				t.Fatal(err)
			}
			for _, part := range want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("-o %q lacks %q:\n%s", output, part, out.String())
				}
			}
		}
	}
}
