package wait

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

const (
	commit = "e15a32f0000000000000000000000000000000aa"
	newer  = "33145d40000000000000000000000000000000bb"
)

// sync is one that is ready at the commit.
func sync(change ...func(*v1alpha1.Sync)) *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "gitops", Name: "dev", Generation: 2}}
	s.Status = v1alpha1.SyncStatus{ObservedGeneration: 2, LastAppliedRevision: "main@sha1:" + commit, LastAttemptedRevision: "main@sha1:" + commit}
	s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "Applied revision main@sha1:" + commit}}
	for _, c := range change {
		c(s)
	}
	return s
}

// notReady is a Sync that tries the newer commit, and fails.
func notReady(s *v1alpha1.Sync) {
	s.Status.LastAttemptedRevision = "main@sha1:" + newer
	s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "BuildFailed", Message: "a.yaml:3"}}
}

func stalled(s *v1alpha1.Sync) {
	notReady(s)
	s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "BuildFailed", Message: "a.yaml:3"})
}

func liveCluster() *v1alpha1.Cluster { return reconcilertest.Cluster(nil) }

// pool is one that a Sync has applied.
func pool(name, sync string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.SyncLabel: sync}}}
}

// drift is what connect.Drifted returns.
func drift(nodes []provision.Node, unknown map[string][]string) driftedFunc {
	return func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
		return nodes, unknown, nil
	}
}

func TestConditions(t *testing.T) {
	suspended := func(s *v1alpha1.Sync) { s.Spec.Suspend = true }
	rolledBack := func(to string) func(s *v1alpha1.Sync) {
		return func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.RollbackAnnotation: to} }
	}
	for name, test := range map[string]struct {
		condition string
		objects   []client.Object
		drifted   driftedFunc
		// met is the sentence of a condition that is met, notMet of one that is not, end that of another error.
		met, notMet, end string
	}{
		"a Sync that is ready":                             {condition: "ready", objects: []client.Object{sync()}, met: "Sync dev: Applied revision main@sha1:" + commit},
		"a Sync that is not":                               {condition: "ready", objects: []client.Object{sync(notReady)}, notMet: "Sync dev: it is not ready: BuildFailed: a.yaml:3"},
		"a Sync that is ready for an older generation":     {condition: "ready", objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Generation = 3 })}, notMet: "Sync dev: its newest generation has not been reconciled yet"},
		"a Sync without a condition":                       {condition: "ready", objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Status.Conditions = nil })}, notMet: "Sync dev: it has no condition Ready yet"},
		"a Sync that is suspended":                         {condition: "ready", objects: []client.Object{sync(suspended)}, notMet: "Sync dev: it is suspended; to resume it, run: poolwright resume dev"},
		"a Sync that does not exist":                       {condition: "ready", end: `no Sync "dev" in namespace gitops; to list those that there are, run: poolwright get syncs -A`},
		"a commit that is applied":                         {condition: "applied=" + commit, objects: []client.Object{sync()}, met: "Sync dev: applied main@sha1:" + commit},
		"a short commit":                                   {condition: "applied=" + commit[:7], objects: []client.Object{sync()}, met: "Sync dev: applied main@sha1:" + commit},
		"a revision as the status has it":                  {condition: "applied=main@sha1:" + commit, objects: []client.Object{sync()}, met: "Sync dev: applied main@sha1:" + commit},
		"an artifact as the status has it":                 {condition: "applied=latest@sha256:" + commit, objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision = "latest@sha256:" + commit })}, met: "Sync dev: applied latest@sha256:" + commit},
		"the commit of another branch":                     {condition: "applied=dev@sha1:" + commit, objects: []client.Object{sync()}, notMet: "Sync dev: it has applied main@sha1:" + commit},
		"a commit that is applied while a later one fails": {condition: "applied=" + commit, objects: []client.Object{sync(stalled)}, met: "Sync dev: applied main@sha1:" + commit},
		"a commit that is tried":                           {condition: "applied=" + newer, objects: []client.Object{sync(notReady)}, notMet: "Sync dev: it has applied main@sha1:" + commit + ", and tried main@sha1:" + newer + "; it is not ready: BuildFailed: a.yaml:3"},
		"a commit other than that of a rollback":           {condition: "applied=" + newer, objects: []client.Object{sync(rolledBack(commit))}, notMet: "Sync dev: it is rolled back to main@sha1:" + commit + "; to have it apply what is newer, run: poolwright resume dev"},
		"the commit of a rollback":                         {condition: "applied=" + newer[:7], objects: []client.Object{sync(rolledBack(newer))}, notMet: "Sync dev: it has applied main@sha1:" + commit},
		"a commit that is stalled":                         {condition: "applied=" + newer, objects: []client.Object{sync(stalled)}, notMet: "Sync dev: main@sha1:" + newer + " is not applied: BuildFailed: a.yaml:3"},
		"another commit than the one that is stalled":      {condition: "applied=" + newer[:7] + "1", objects: []client.Object{sync(stalled)}, notMet: "Sync dev: it has applied main@sha1:" + commit + ", and tried main@sha1:" + newer + "; it is not ready: BuildFailed: a.yaml:3"},
		"a roll-out that is over":                          {condition: "rollout", objects: []client.Object{sync(), liveCluster()}, drifted: drift(nil, nil), met: "Sync dev: no node is to be replaced"},
		"a roll-out of another Sync":                       {condition: "rollout", objects: []client.Object{sync(), liveCluster(), pool("gpu", "other")}, drifted: drift([]provision.Node{{Pool: "gpu", Name: "a"}}, map[string][]string{"gpu": {"who knows"}}), met: "Sync dev: no node is to be replaced"},
		"nodes that are to be replaced": {condition: "rollout", objects: []client.Object{sync(), liveCluster(), pool("gpu", "dev")}, drifted: drift([]provision.Node{
			{Pool: "gpu", Name: "a", Reason: "AMIDrift"}, {Pool: "gpu", NodeClaim: "gpu-b", Reason: "AMIDrift", Blockers: []provision.Blocker{{Kind: "pdb"}}}, {Pool: "gone", Name: "c", Reason: poolRemoved},
		}, nil), notMet: "Sync dev: 3 nodes to be replaced, 1 of them blocked: a (AMIDrift), gpu-b (AMIDrift), c (NodePoolRemoved)"},
		"a pool of which it is not known":                  {condition: "rollout", objects: []client.Object{sync(), liveCluster(), pool("gpu", "dev")}, drifted: drift(nil, map[string][]string{"gpu": {"EC2NodeClass gpu: not reconciled yet."}}), notMet: "Sync dev: EC2NodeClass gpu: not reconciled yet."},
		"a roll-out of a Sync that fails":                  {condition: "rollout", objects: []client.Object{sync(notReady), liveCluster()}, drifted: drift(nil, nil), notMet: "Sync dev: it is not ready: BuildFailed: a.yaml:3"},
		"a roll-out of a revision that is not fetched yet": {condition: "rollout=" + newer, objects: []client.Object{sync(), liveCluster()}, drifted: drift(nil, nil), notMet: "Sync dev: it has applied main@sha1:" + commit},
		"a roll-out of a revision that is applied":         {condition: "rollout=" + commit[:7], objects: []client.Object{sync(), liveCluster()}, drifted: drift(nil, nil), met: "Sync dev: no node is to be replaced"},
		"a roll-out of a revision that is stalled":         {condition: "rollout=" + newer, objects: []client.Object{sync(stalled), liveCluster()}, drifted: drift(nil, nil), notMet: "Sync dev: main@sha1:" + newer + " is not applied: BuildFailed: a.yaml:3"},
		"a revision with a control sequence": {condition: "applied=" + newer, objects: []client.Object{sync(func(s *v1alpha1.Sync) {
			s.Status.LastAppliedRevision, s.Status.LastAttemptedRevision = "a\x1b[2J", "a\x1b[2J"
		})}, notMet: `Sync dev: it has applied a\x1b[2J`},
		"a roll-out of nodes without Cluster": {condition: "rollout", objects: []client.Object{sync()}, drifted: drift(nil, nil), end: "there is no Cluster, which names the region of the nodes: apply one, or wait with --for=ready"},
	} {
		t.Run(name, func(t *testing.T) {
			check, err := parse(test.condition)
			if err != nil {
				t.Fatal(err)
			}
			w := &syncWaiter{kube: reconcilertest.InstalledClient(t, test.objects...), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}, now: time.Now, drifted: test.drifted}
			sentence, err := w.wait(t.Context(), check, 0, func(string) { t.Error("what is checked once is not reported twice") })
			var unmet NotMet
			switch {
			case test.met != "":
				if err != nil || sentence != test.met {
					t.Errorf("%q, %v, want %q", sentence, err, test.met)
				}
			case test.notMet != "":
				if !errors.As(err, &unmet) || unmet.Message != test.notMet {
					t.Errorf("%v, want %q", err, test.notMet)
				}
			case err == nil || err.Error() != test.end || errors.As(err, &unmet):
				t.Errorf("%v, want %q", err, test.end)
			}
		})
	}
}

func TestTheRollOutOfARevisionGoesOnWhereANewerOneFollows(t *testing.T) {
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, liveCluster()), now: time.Now, drifted: drift(nil, nil)}
	check := rolloutOf(commit)
	if o, err := check(t.Context(), w, sync(notReady)); err != nil || o.met {
		t.Fatalf("%+v, %v", o, err)
	}
	next := func(s *v1alpha1.Sync) {
		s.Status.LastAppliedRevision, s.Status.LastAttemptedRevision = "main@sha1:"+newer, "main@sha1:"+newer
	}
	if o, err := check(t.Context(), w, sync(next)); err != nil || !o.met {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestWaitingEndsWithTheTime(t *testing.T) {
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(notReady)), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}, now: time.Now}
	var reported []string
	_, err := w.wait(t.Context(), ready, 10*time.Millisecond, func(s string) { reported = append(reported, s) })
	var unmet NotMet
	if !errors.As(err, &unmet) || !strings.HasPrefix(unmet.Message, "Sync dev: after 10ms still: it is not ready: BuildFailed") {
		t.Errorf("it ends with %v", err)
	}
	if len(reported) != 1 {
		t.Errorf("reported are %q", reported)
	}
}

func TestWhatIsStalledEndsTheWait(t *testing.T) {
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(stalled)), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}, now: time.Now}
	_, err := w.wait(t.Context(), applied(newer), time.Hour, func(string) {})
	if _, is := errors.AsType[NotMet](err); !is {
		t.Errorf("it ends with %v", err)
	}
}

func TestAnInterruptionIsNoResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(notReady)), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}, now: time.Now}
	_, err := w.wait(ctx, ready, time.Hour, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

func TestNodesAreNotReadEverySecond(t *testing.T) {
	reads, at := 0, time.Unix(0, 0)
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(), liveCluster()), now: func() time.Time { return at }}
	w.drifted = func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
		reads++
		return nil, nil, nil
	}
	for range 21 {
		if _, err := rollout(t.Context(), w, sync()); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
	}
	if reads != 3 {
		t.Errorf("nodes are read %d times in 20 seconds", reads)
	}
}

func TestUnreadableConditionsAreRefused(t *testing.T) {
	for condition, want := range map[string]string{
		"":                  "give the condition: --for=ready",
		"ready=now":         "is not one of ready, applied=REVISION, rollout=REVISION, rollout",
		"condition=Ready":   "is not one of ready, applied=REVISION, rollout=REVISION, rollout",
		"applied":           "needs a revision",
		"applied=":          "needs a revision",
		"applied=main":      "needs a revision",
		"applied=e15a32":    "needs a revision",
		"applied=main@sha1": "needs a revision",
		"rollout=":          "--for=rollout needs a revision",
		"rollout=main":      "--for=rollout needs a revision",
	} {
		if _, err := parse(condition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--for=%s: %v, want %q", condition, err, want)
		}
	}
}
