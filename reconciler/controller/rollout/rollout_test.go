package rollout

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

var dev = types.NamespacedName{Namespace: "gitops", Name: "dev"}

// sync is a Sync that has applied a revision, and is ready.
func sync(change ...func(*v1alpha1.Sync)) *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: dev.Namespace, Name: dev.Name, Generation: 2}}
	s.Status = v1alpha1.SyncStatus{ObservedGeneration: 2, LastAppliedRevision: "main@sha1:1", LastAppliedTreeID: "t1"}
	s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "ReconciliationSucceeded", Message: "Applied revision main@sha1:1", ObservedGeneration: 2}}
	for _, c := range change {
		c(s)
	}
	return s
}

// with has a condition RolledOut from before.
func with(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.Sync) {
	return func(s *v1alpha1.Sync) {
		conditions.Set(s, &metav1.Condition{Type: Condition, Status: status, Reason: reason, Message: message})
	}
}

func ready(status metav1.ConditionStatus, reason string) func(*v1alpha1.Sync) {
	return func(s *v1alpha1.Sync) {
		conditions.Set(s, &metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: "why"})
	}
}

func newPoller() (*Poller, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return NewPoller(Config{LabelValue: func(sync string) string { return sync }, Clock: clock, Log: logr.Discard()}), clock
}

// written is the condition of a Sync, as status, reason and message.
func written(s *v1alpha1.Sync) string {
	c := conditions.Get(s, Condition)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

func TestTheConditionOfASync(t *testing.T) {
	const isOver = "True UpToDate Revision main@sha1:1: no node is to be replaced"
	newer := func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision, s.Status.LastAppliedTreeID = "main@sha1:2", "t2" }
	for name, test := range map[string]struct {
		before, after *v1alpha1.Sync
		found         result
		own           bool
		want          string
		// reads is true where the nodes are read next.
		reads bool
	}{
		"a revision of which no node was read": {before: sync(), after: sync(), want: "Unknown Progressing Revision main@sha1:1: the nodes are not read yet", reads: true},
		"a revision that is rolled out":        {before: sync(with("Unknown", "Progressing", "")), after: sync(with("Unknown", "Progressing", "")), found: ended, want: isOver},
		"a newer revision than the one that is rolled out": {
			before: sync(with("True", upToDate, "Revision main@sha1:1: no node is to be replaced")), after: sync(newer, with("True", upToDate, "Revision main@sha1:1: no node is to be replaced")),
			found: ended, want: "Unknown Progressing Revision main@sha1:2: the nodes are not read yet", reads: true,
		},
		"a newer revision that changed no node": {
			before: sync(with("True", upToDate, "Revision main@sha1:1: no node is to be replaced")), after: sync(newer, with("True", upToDate, "Revision main@sha1:1: no node is to be replaced")),
			found: ended, own: true, want: "True UpToDate Revision main@sha1:2: no node is to be replaced",
		},
		"other files of the same revision": {
			before: sync(with("True", upToDate, "")), after: sync(func(s *v1alpha1.Sync) { s.Status.LastAppliedTreeID = "t2" }, with("True", upToDate, "")),
			found: ended, want: "Unknown Progressing Revision main@sha1:1: the nodes are not read yet", reads: true,
		},
		"another generation that is applied": {
			before: sync(func(s *v1alpha1.Sync) { s.Generation, s.Status.ObservedGeneration = 1, 1 }, with("True", upToDate, "")),
			after:  sync(func(s *v1alpha1.Sync) { s.Generation = 1 }, with("True", upToDate, ""), func(s *v1alpha1.Sync) { s.Generation = 2 }),
			found:  ended, want: "Unknown Progressing Revision main@sha1:1: the nodes are not read yet", reads: true,
		},
		"another generation that is not applied yet": {
			before: sync(with("True", upToDate, "as it was")), after: sync(with("True", upToDate, "as it was"), func(s *v1alpha1.Sync) { s.Generation = 3 }), found: ended, want: "True UpToDate as it was",
		},
		"a roll-out that another process has found to be over": {
			before: sync(with("True", upToDate, "Revision main@sha1:1: no node is to be replaced")), after: sync(with("True", upToDate, "Revision main@sha1:1: no node is to be replaced")), want: isOver,
		},
		"a roll-out that another process has found to be under way": {
			before: sync(with("False", rollingOut, "Revision main@sha1:1: nodes go")), after: sync(with("False", rollingOut, "Revision main@sha1:1: nodes go")),
			want: "False RollingOut Revision main@sha1:1: nodes go", reads: true,
		},
		"a Sync that is ready again": {
			before: sync(with("False", "SourceUnavailable", "")), after: sync(with("False", "SourceUnavailable", "")), found: ended, want: isOver,
		},
		"changes that are held": {
			before: sync(), after: sync(ready("False", "NodeReplacementHeld")), found: ended, want: "False NodeReplacementHeld Revision main@sha1:1: the Sync is not ready, as its condition Ready has it",
		},
		"objects that are not healthy yet": {
			before: sync(), after: sync(ready("Unknown", "Progressing")), want: "Unknown Progressing Revision main@sha1:1: the Sync is not ready, as its condition Ready has it",
		},
		"a Sync that has applied nothing": {
			before: sync(), after: sync(ready("False", "BuildFailed"), func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision = "" }),
			want: "False BuildFailed No revision is applied: the Sync is not ready, as its condition Ready has it",
		},
		"a Sync without a condition": {before: sync(), after: sync(func(s *v1alpha1.Sync) { s.Status.Conditions = nil })},
		"a Sync that is suspended": {
			before: sync(), after: sync(func(s *v1alpha1.Sync) { suspension.Start(s, "EKS is upgraded", time.Time{}) }), found: ended,
			want: "Unknown Suspended Revision main@sha1:1: nodes are not read while the Sync is suspended: EKS is upgraded",
		},
		"a Sync that is being deleted": {
			before: sync(with("True", upToDate, "as it was")), after: sync(with("True", upToDate, "as it was"), func(s *v1alpha1.Sync) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), found: ended,
			want: "Unknown Terminating Revision main@sha1:1: nodes are not read while the Sync is being deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPoller()
			if test.found != (result{}) {
				p.syncs[dev] = &syncProgress{found: test.found, own: test.own}
			}
			p.SetCondition(test.before, test.after)
			if got := written(test.after); got != test.want {
				t.Errorf("the condition is\n%s, want\n%s", got, test.want)
			}
			if c := conditions.Get(test.after, Condition); c != nil && test.after.Generation == 2 && c.ObservedGeneration != 2 {
				t.Errorf("it is of generation %d", c.ObservedGeneration)
			}
			if reads := len(p.begin()) == 1; reads != test.reads {
				t.Errorf("nodes are read: %t", reads)
			}
			if due := p.Due(test.after); due {
				t.Error("what was just set is due")
			}
		})
	}
}

// changed are the results of a run with one change of the object gpu.
func changed(kind string, drift bool, status apply.Status) []apply.Result {
	group := "karpenter.sh"
	if kind == "EC2NodeClass" {
		group = "karpenter.k8s.aws"
	}
	return []apply.Result{{Status: status, Change: plan.Change{Key: state.Key{Group: group, Kind: kind, Name: "gpu"}, Action: plan.Update, Drift: drift}}}
}

func TestWhatARunHasChangedIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		results      []apply.Result
		reads, reset bool
	}{
		"a pool that the revision changes": {results: changed("NodePool", false, apply.Applied), reads: true, reset: true},
		"a pool that was changed by hand":  {results: changed("NodePool", true, apply.Applied), reads: true},
		"a pool that is held":              {results: changed("NodePool", false, apply.Held)},
		"what no node is made from":        {results: changed("NodeClaim", false, apply.Applied)},
		"nothing":                          {},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPoller()
			p.syncs[dev] = &syncProgress{found: ended}
			p.Applied(sync(), test.results)
			if reads := len(p.begin()) == 1; reads != test.reads {
				t.Errorf("nodes are read: %t", reads)
			}
			s := sync(with("True", upToDate, "Revision main@sha1:1: no node is to be replaced"))
			if due := p.Due(s); due != test.reset {
				t.Errorf("the condition is another: %t", due)
			}
		})
	}
}

func TestThePoolsThatASyncDeletesAreItsOwn(t *testing.T) {
	r := newReading()
	s, other := sync(), sync(func(s *v1alpha1.Sync) { s.Name = "prod" })
	results := changed("NodePool", false, apply.Applied)
	results[0].Change.Action = plan.Delete
	r.Applied(other, results)
	r.SetCondition(s, s)
	r.found = nodeReplacements{nodes: []provision.Node{{Pool: "gpu", Name: "a", Reason: "NodePoolRemoved"}}}
	r.expect(t, pollInterval, "dev", "prod")
	r.SetCondition(s, s)
	r.SetCondition(other, other)
	if got := written(s); got != "True UpToDate Revision main@sha1:1: no node is to be replaced" {
		t.Errorf("the condition of one that deletes nothing is %s", got)
	}
	if got := written(other); got != "False RollingOut Revision main@sha1:1: nodes are to be replaced; to list them, run: poolwright get nodes" {
		t.Errorf("the condition of the one that deletes is %s", got)
	}
}

func TestWithoutAPollerNoConditionIsSet(t *testing.T) {
	var p *Poller
	s := sync()
	p.Applied(s, []apply.Result{{Status: apply.Applied, Change: plan.Change{Key: state.Key{Group: "karpenter.sh", Kind: "NodePool"}}}})
	p.SetCondition(s, s)
	p.Drop(dev)
	if p.Due(s) || written(s) != "" {
		t.Errorf("the condition is %q", written(s))
	}
}

func TestTheNodesOfASync(t *testing.T) {
	node := func(pool, reason string, blockers ...provision.Blocker) provision.Node {
		return provision.Node{Pool: pool, Name: pool + "-1", Reason: reason, Blockers: blockers}
	}
	pdb := provision.Blocker{Kind: "pdb"}
	forced := provision.Blocker{Kind: "pdb", ForcedAfterSeconds: 60}
	pools := map[string]string{"gpu": "dev", "cpu": "dev", "other": "prod"}
	for name, test := range map[string]struct {
		found nodeReplacements
		want  result
	}{
		"no node":                                    {want: ended},
		"a node of another Sync":                     {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("other", "NodePoolDrifted")}, unknown: map[string][]string{"other": {"what"}}}, want: ended},
		"a node that is drifted":                     {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gpu", "NodePoolDrifted")}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"a node whose pool is gone":                  {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gone", "NodePoolRemoved")}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"a node of another's pool that is going":     {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("other", "NodePoolRemoved")}}, want: ended},
		"a node of a pool that is going":             {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gpu", "NodePoolRemoved")}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"a node of a pool that another has deleted":  {found: nodeReplacements{pools: pools, removed: map[string]string{"gone": "prod"}, nodes: []provision.Node{node("gone", "NodePoolRemoved")}}, want: ended},
		"a node of a pool that the Sync has deleted": {found: nodeReplacements{pools: pools, removed: map[string]string{"gone": "dev"}, nodes: []provision.Node{node("gone", "NodePoolRemoved")}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"a node that is blocked":                     {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gpu", "AMIDrift", pdb)}}, want: result{"False", "DisruptionBlocked", "all nodes that are yet to be replaced are blocked; for what blocks one, run: poolwright explain node NAME"}},
		"a node that is blocked, and another":        {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gpu", "AMIDrift", pdb), node("cpu", "AMIDrift")}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"a node that is blocked for a time":          {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gpu", "AMIDrift", forced)}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"a budget that is closed":                    {found: nodeReplacements{pools: pools, closed: map[string]bool{"gpu": true}, nodes: []provision.Node{node("gpu", "AMIDrift")}}, want: result{"False", "DisruptionBlocked", "all nodes that are yet to be replaced are blocked; for what blocks one, run: poolwright explain node NAME"}},
		"a pool of which it is not known":            {found: nodeReplacements{pools: pools, unknown: map[string][]string{"gpu": {"EC2NodeClass gpu: not reconciled yet."}}}, want: result{"Unknown", "PartlyUnknown", "EC2NodeClass gpu: not reconciled yet."}},
		"a node beside what is not known":            {found: nodeReplacements{pools: pools, nodes: []provision.Node{node("gpu", "AMIDrift")}, unknown: map[string][]string{"cpu": {"what"}}}, want: result{"False", "RollingOut", "nodes are to be replaced; to list them, run: poolwright get nodes"}},
		"nodes without a Cluster":                    {found: nodeReplacements{pools: pools, noCluster: true}, want: result{"Unknown", "NoCluster", "there is no Cluster, which names the region of the nodes: apply one"}},
		"pools of others without a Cluster":          {found: nodeReplacements{pools: map[string]string{"other": "prod"}, noCluster: true}, want: ended},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(test.want, test.found.of("dev"), cmp.AllowUnexported(result{})); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
