package rollout

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

var drifting = nodeReplacements{pools: map[string]string{"gpu": "dev"}, nodes: []provision.Node{{Pool: "gpu", Name: "a", Reason: "NodePoolDrifted"}}}

// reading is a Poller whose nodes the test sets, with what it reads and what it reports.
type reading struct {
	*Poller
	clock *clocktesting.FakeClock
	// found and err are what is read, during is called meanwhile.
	found    nodeReplacements
	err      error
	during   func()
	reads    int
	notified []string
}

func newReading() *reading {
	r := &reading{}
	r.Poller, r.clock = newPoller()
	r.read = func(context.Context) (nodeReplacements, error) {
		r.reads++
		if r.during != nil {
			r.during()
		}
		return r.found, r.err
	}
	r.notify = func(name types.NamespacedName) { r.notified = append(r.notified, name.Name) }
	return r
}

// expect polls, and compares after what time it is done again and which Syncs are reported.
func (r *reading) expect(t *testing.T, after time.Duration, notified ...string) {
	t.Helper()
	r.notified = nil
	if got := r.poll(t.Context()); got != after {
		t.Errorf("it reads again after %s, want %s", got, after)
	}
	slices.Sort(r.notified)
	if d := cmp.Diff(notified, r.notified); d != "" {
		t.Errorf("reported are (-want +got):\n%s", d)
	}
}

func TestNodesAreReadOnlyWhileARollOutIsUnderWay(t *testing.T) {
	r := newReading()
	r.expect(t, 0)
	if r.reads != 0 {
		t.Fatal("nodes are read for no Sync")
	}
	s := sync()
	r.SetCondition(s, s)
	r.found = drifting
	r.expect(t, 10*time.Second, "dev")
	r.SetCondition(s, s)
	if got := written(s); got != "False RollingOut Revision main@sha1:1: nodes are to be replaced; to list them, run: poolwright get nodes" {
		t.Errorf("the condition is %s", got)
	}
	// One of two more nodes goes: nothing is to be written.
	r.found.nodes = append(r.found.nodes, provision.Node{Pool: "gpu", Name: "b", Reason: "NodePoolDrifted"})
	r.expect(t, 10*time.Second)
	r.clock.Step(slowAfter)
	r.expect(t, time.Minute)
	r.found = nodeReplacements{}
	r.expect(t, 0, "dev")
	r.SetCondition(s, s)
	if got := written(s); got != "True UpToDate Revision main@sha1:1: no node is to be replaced" {
		t.Errorf("the condition is %s", got)
	}
	reads := r.reads
	r.SetCondition(s, s)
	r.expect(t, 0)
	if r.reads != reads || r.Due(s) {
		t.Error("a roll-out that is over is read again")
	}
}

func TestWhatWasReadBeforeARevisionDoesNotCount(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	next := sync(func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision = "main@sha1:2" })
	r.during = func() { r.SetCondition(s, next) }
	r.expect(t, 10*time.Second)
	if got := written(next); got != "Unknown Progressing Revision main@sha1:2: the nodes are not read yet" {
		t.Errorf("the condition is %s", got)
	}
	r.during, r.found = nil, drifting
	r.expect(t, 10*time.Second, "dev")
	r.SetCondition(next, next)
	if got := written(next); got != "False RollingOut Revision main@sha1:2: nodes are to be replaced; to list them, run: poolwright get nodes" {
		t.Errorf("the condition is %s", got)
	}
}

func TestWhatCannotBeReadIsReportedOnceAndTriedAgain(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.err = errors.New("read tcp 10.0.0.1:40000: connection reset")
	r.expect(t, time.Minute, "dev")
	r.SetCondition(s, s)
	if got := written(s); got != "Unknown ProgressingWithRetry Revision main@sha1:1: the nodes cannot be read: the controller's log has the error" {
		t.Errorf("the condition is %s", got)
	}
	r.err = errors.New("read tcp 10.0.0.1:40001: connection reset")
	r.expect(t, time.Minute)
	r.err = fmt.Errorf("reading the nodes of the cluster: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("as user 1")))
	r.expect(t, time.Minute, "dev")
	r.SetCondition(s, s)
	if got := written(s); got != "Unknown ProgressingWithRetry Revision main@sha1:1: reading nodes: Forbidden" {
		t.Errorf("the condition is %s", got)
	}
	r.err, r.found = nil, drifting
	r.expect(t, 10*time.Second, "dev")
	r.SetCondition(s, s)
	// What was known stays while it cannot be read again: a notification that changes no condition would cost a run.
	r.err = errors.New("refused")
	r.expect(t, time.Minute)
	if r.Due(s) {
		t.Error("the condition is another")
	}
}

// Karpenter compares the nodes of a class one by one, after the class is Ready.
func TestTheEndOfARollOutIsReadTwice(t *testing.T) {
	r := newReading()
	older := nodeReplacements{pools: map[string]string{"gpu": "dev"}, oldest: map[string]time.Time{"gpu": r.clock.Now().Add(-time.Hour)}}
	s := sync()
	r.SetCondition(s, s)
	r.found = older
	r.expect(t, time.Minute, "dev")
	r.SetCondition(s, s)
	if got := written(s); got != "Unknown Progressing Revision main@sha1:1: "+stabilizing.message {
		t.Errorf("the condition is %s", got)
	}
	// Another Sync has the nodes read sooner.
	r.clock.Step(30 * time.Second)
	r.expect(t, 30*time.Second)
	// Karpenter marks one after all: the minute begins anew.
	r.found = drifting
	r.clock.Step(20 * time.Second)
	r.expect(t, 10*time.Second, "dev")
	r.found = older
	r.clock.Step(10 * time.Second)
	r.expect(t, time.Minute, "dev")
	r.clock.Step(time.Minute - time.Second)
	r.expect(t, 10*time.Second)
	r.clock.Step(10 * time.Second)
	r.expect(t, 0, "dev")
	r.SetCondition(s, s)
	if got := written(s); got != "True UpToDate Revision main@sha1:1: no node is to be replaced" {
		t.Errorf("the condition is %s", got)
	}
	// What was changed by hand, and is corrected: the end is still one.
	r.Applied(s, changed("NodePool", true, apply.Applied))
	r.expect(t, 0)
	// A change of the class begins the two readings anew.
	r.Applied(s, changed("EC2NodeClass", false, apply.Applied))
	r.expect(t, time.Minute, "dev")
}

func TestAnEndIsReadOnceWhereNoNodeIsOlderThanTheChange(t *testing.T) {
	for name, found := range map[string]nodeReplacements{
		"nodes that came since":         {pools: map[string]string{"gpu": "dev"}, oldest: map[string]time.Time{"gpu": time.Date(2026, 1, 2, 3, 4, 35, 0, time.UTC)}},
		"nodes of another Sync":         {pools: map[string]string{"gpu": "prod"}, oldest: map[string]time.Time{"gpu": time.Unix(0, 0)}},
		"nodes of another's old pool":   {removed: map[string]string{"gpu": "prod"}, oldest: map[string]time.Time{"gpu": time.Unix(0, 0)}},
		"a cluster without any of them": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading()
			s := sync()
			r.SetCondition(s, s)
			r.found = found
			r.removed = found.removed
			r.expect(t, 0, "dev")
		})
	}
}

func TestWithoutAClusterNodesAreReadSlowly(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.found = nodeReplacements{pools: map[string]string{"gpu": "dev"}, noCluster: true}
	r.expect(t, time.Minute, "dev")
}

func TestARevisionThatChangesNoPoolGoesOnWithTheRollOut(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.found = drifting
	r.expect(t, 10*time.Second, "dev")
	r.SetCondition(s, s)
	next := s.DeepCopy()
	next.Status.LastAppliedRevision = "main@sha1:2"
	r.Applied(s, nil)
	r.SetCondition(s, next)
	if got := written(next); got != "False RollingOut Revision main@sha1:2: nodes are to be replaced; to list them, run: poolwright get nodes" {
		t.Errorf("the condition is %s", got)
	}
	r.expect(t, 10*time.Second)
}

// The API server may have made a change that its client takes for failed, and the next run has nothing to change then.
func TestWhatWasNotAppliedBelongsToTheNextRevision(t *testing.T) {
	for name, test := range map[string]struct {
		results []apply.Result
		want    string
	}{
		"a pool that failed":                   {changed("NodePool", false, apply.Failed), "Unknown Progressing Revision main@sha1:2: the nodes are not read yet"},
		"a class with a conflict":              {changed("EC2NodeClass", false, apply.Conflict), "Unknown Progressing Revision main@sha1:2: the nodes are not read yet"},
		"an overlay that is held":              {changed("NodeOverlay", false, apply.Held), "Unknown Progressing Revision main@sha1:2: the nodes are not read yet"},
		"a pool of which drift is reported":    {changed("NodePool", true, apply.Skipped), "Unknown Progressing Revision main@sha1:2: the nodes are not read yet"},
		"a class that was not attempted":       {changed("EC2NodeClass", false, apply.NotAttempted), "Unknown Progressing Revision main@sha1:2: the nodes are not read yet"},
		"a ConfigMap that failed":              {changed("ConfigMap", false, apply.Failed), "True UpToDate Revision main@sha1:2: no node is to be replaced"},
		"a revision that changes nothing else": {nil, "True UpToDate Revision main@sha1:2: no node is to be replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading()
			s := sync()
			r.SetCondition(s, s)
			r.expect(t, 0, "dev")
			r.SetCondition(s, s)
			r.Applied(s, test.results)
			failed := s.DeepCopy()
			ready("False", "Failed")(failed)
			r.SetCondition(s, failed)
			r.Applied(failed, nil)
			next := failed.DeepCopy()
			ready("True", "ReconciliationSucceeded")(next)
			next.Status.LastAppliedRevision = "main@sha1:2"
			r.SetCondition(failed, next)
			if got := written(next); got != test.want {
				t.Errorf("the condition is %s, want %s", got, test.want)
			}
		})
	}
}

// The reason of Ready may be one of the nodes, too.
func TestASyncThatIsReadyAgainIsRead(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.found = drifting
	r.expect(t, 10*time.Second, "dev")
	r.SetCondition(s, s)
	unready := s.DeepCopy()
	ready("False", "PartlyUnknown")(unready)
	r.SetCondition(s, unready)
	again := unready.DeepCopy()
	ready("True", "ReconciliationSucceeded")(again)
	r.SetCondition(unready, again)
	if got := written(again); got != "Unknown Progressing Revision main@sha1:1: the nodes are not read yet" {
		t.Errorf("the condition is %s", got)
	}
	r.expect(t, 10*time.Second, "dev")
}

func TestASyncThatIsNotReadyOrGoneIsNotRead(t *testing.T) {
	for name, end := range map[string]func(*reading, *v1alpha1.Sync){
		"one that is not ready": func(r *reading, s *v1alpha1.Sync) {
			r.SetCondition(s, sync(ready("False", "BuildFailed")))
		},
		"one that is suspended": func(r *reading, s *v1alpha1.Sync) {
			r.SetCondition(s, sync(func(s *v1alpha1.Sync) { s.Spec.Suspend = true }))
		},
		"one that is being deleted": func(r *reading, s *v1alpha1.Sync) {
			r.SetCondition(s, sync(func(s *v1alpha1.Sync) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }))
		},
		"one that is gone": func(r *reading, s *v1alpha1.Sync) { r.Drop(client.ObjectKeyFromObject(s)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading()
			s := sync()
			r.SetCondition(s, s)
			end(r, s)
			r.expect(t, 0)
			if r.reads != 0 {
				t.Error("its nodes are read")
			}
			r.SetCondition(s, s)
			// One that goes while nodes are read.
			r.during = func() { end(r, s) }
			r.found = drifting
			r.expect(t, 0)
		})
	}
}

func TestThePollerReadsAfterARequestAndThenAfterAnInterval(t *testing.T) {
	r := newReading()
	r.found = drifting
	read := make(chan struct{})
	r.read = func(context.Context) (nodeReplacements, error) {
		read <- struct{}{}
		return r.found, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- r.Start(ctx) }()
	// A step ends what waits by then, and nothing else.
	await := func(step time.Duration) {
		t.Helper()
		for !r.clock.HasWaiters() {
			<-time.After(time.Millisecond)
		}
		r.clock.Step(step)
		select {
		case <-read:
		case <-time.After(time.Minute):
			t.Fatal("nothing is read")
		}
	}
	s := sync()
	r.SetCondition(s, s)
	await(batchDelay)
	await(pollInterval)
	await(pollInterval)
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// listed is a reader, with the lists that were read.
type listed struct {
	client.Reader
	kinds string
}

func (l *listed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.kinds += reflect.TypeOf(list).Elem().Name() + " "
	return l.Reader.List(ctx, list, opts...)
}

func TestWhatIsReadOfACluster(t *testing.T) {
	budget := func(nodes string) func([]client.Object) []client.Object {
		return func(objects []client.Object) []client.Object {
			pool, _ := objects[2].(*karpv1.NodePool)
			pool.Labels, pool.Spec.Disruption.Budgets = map[string]string{v1alpha1.SyncLabel: "dev"}, []karpv1.Budget{{Nodes: nodes}}
			return objects
		}
	}
	// claims are the NodeClaim of the pool, changed, without the pool.
	claims := func(change func(*karpv1.NodeClaim)) func([]client.Object) []client.Object {
		return func(objects []client.Object) []client.Object {
			claim, _ := objects[3].(*karpv1.NodeClaim)
			change(claim)
			return append(objects[:2:2], objects[3:]...)
		}
	}
	owned := []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "gpu", UID: "1"}}
	nodes := []provision.Node{{Pool: "gpu", Name: "node-1", Reason: "NodePoolDrifted"}}
	removed := []provision.Node{{Pool: "gpu", Name: "node-1", Reason: "NodePoolRemoved"}}
	gpu := map[string]time.Time{"gpu": time.Unix(1000, 0)}
	for name, test := range map[string]struct {
		objects func([]client.Object) []client.Object
		want    nodeReplacements
		// lists are which kinds are read, empty for all.
		lists string
	}{
		"a pool of a Sync":            {objects: budget("1"), want: nodeReplacements{nodes: nodes, pools: map[string]string{"gpu": "dev"}, closed: map[string]bool{"gpu": false}, oldest: gpu}},
		"a pool whose budget is none": {objects: budget("0"), want: nodeReplacements{nodes: nodes, pools: map[string]string{"gpu": "dev"}, closed: map[string]bool{"gpu": true}, oldest: gpu}},
		"a pool of no Sync":           {want: nodeReplacements{nodes: nodes, pools: map[string]string{"gpu": ""}, closed: map[string]bool{"gpu": false}, oldest: gpu}},
		"a cluster without nodes":     {objects: func(o []client.Object) []client.Object { return o[:3] }},
		"a cluster without a Cluster": {objects: func(o []client.Object) []client.Object { return o[1:] }, want: nodeReplacements{pools: map[string]string{"gpu": ""}, noCluster: true}, lists: "NodePoolList NodeClaimList "},
		"a pool that is gone, without a Cluster": {objects: func(o []client.Object) []client.Object {
			return claims(func(c *karpv1.NodeClaim) { c.OwnerReferences = owned })(o)[1:]
		}, want: nodeReplacements{nodes: removed, pools: map[string]string{}, noCluster: true}, lists: "NodePoolList NodeClaimList "},
		"a pool that is going, without a Cluster": {objects: func(o []client.Object) []client.Object {
			o[2].SetLabels(map[string]string{v1alpha1.SyncLabel: "dev"})
			o[2].SetFinalizers([]string{"karpenter.sh/termination"})
			o[2].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1000, 0)})
			return o[1:]
		}, want: nodeReplacements{nodes: removed, pools: map[string]string{"gpu": "dev"}, noCluster: true}},
		"a pool without nodes beside another's, without a Cluster": {objects: func(o []client.Object) []client.Object {
			pool, _ := o[2].DeepCopyObject().(*karpv1.NodePool)
			pool.Name, pool.Labels = "cpu", map[string]string{v1alpha1.SyncLabel: "dev"}
			return append(o[1:], pool)
		}, want: nodeReplacements{pools: map[string]string{"gpu": ""}, noCluster: true}},
		"a cluster with nothing in it": {objects: func([]client.Object) []client.Object { return nil }, lists: "NodePoolList NodeClaimList "},
		"a node of no pool":            {objects: claims(func(c *karpv1.NodeClaim) { delete(c.Labels, karpv1.NodePoolLabelKey) })},
		"a node that another made":     {objects: claims(func(*karpv1.NodeClaim) {})},
		"a node whose pool is gone": {objects: claims(func(c *karpv1.NodeClaim) {
			c.OwnerReferences = owned
		}), want: nodeReplacements{nodes: nodes, pools: map[string]string{}, closed: map[string]bool{}, oldest: gpu}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := forecasttest.Live(t)
			objects[3].SetCreationTimestamp(metav1.NewTime(time.Unix(1000, 0)))
			if test.objects != nil {
				objects = test.objects(objects)
			}
			reader := &listed{Reader: reconcilertest.InstalledClient(t, objects...)}
			cfg := Config{
				Cluster: func(context.Context) (*v1alpha1.Cluster, error) {
					if len(objects) == 0 {
						return nil, nil
					}
					cluster, _ := objects[0].(*v1alpha1.Cluster)
					return cluster, nil
				},
				Snapshot: &forecasting.SnapshotReader{Reader: reader},
				Drifted: func(_ context.Context, spec v1alpha1.ClusterSpec, live provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
					if spec.Region != "eu-west-1" || live.Cluster.Region != "eu-west-1" || len(live.NodeClaims) != 1 {
						t.Errorf("the nodes of %+v are compared", live.Cluster)
					}
					return nodes, nil, nil
				},
				LabelValue: func(sync string) string { return sync }, Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Log: logr.Discard(),
			}
			got, err := cfg.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got, cmp.AllowUnexported(nodeReplacements{})); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if test.lists != "" && reader.kinds != test.lists {
				t.Errorf("read are %s", reader.kinds)
			}
		})
	}
}

func TestAClusterThatCannotBeReadIsAnError(t *testing.T) {
	cfg := Config{Cluster: func(context.Context) (*v1alpha1.Cluster, error) { return nil, errors.New("refused") }}
	if _, err := cfg.read(t.Context()); err == nil || err.Error() != "refused" {
		t.Errorf("it ends with %v", err)
	}
}
