package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// The status of a Cluster cannot be written: it is too large, or a webhook refuses it. Whoever may
// create a second Cluster can make one like that.
func TestAStatusThatCannotBeWrittenHoldsNothingUp(t *testing.T) {
	off := func(c *v1alpha1.Cluster) { c.Spec.Engine.Mode = v1alpha1.EngineOff }
	held := &Blocked{Reason: "AWSUnavailable", Message: "m"}
	for name, c := range map[string]struct {
		requested func(*v1alpha1.Cluster) // of the Cluster that decides, since the process started
		held      *Blocked
		refused   string
		reason    string // of the deciding one's condition Ready
		ignored   string // of the other's
		soon      bool   // the next look does not wait for a backoff
	}{
		"of one for which nothing is done, when the settings change":    {requested: off, refused: "tenant", reason: "Restarting", soon: true},
		"of one for which nothing is done, while a gate holds":          {held: held, refused: "tenant", reason: "AWSUnavailable", soon: true},
		"of one for which nothing is done, when nothing changes":        {refused: "tenant", reason: EngineRunning},
		"of the one that decides, when the settings change":             {requested: off, refused: "old", ignored: "SeveralClusters", soon: true},
		"of the one that decides, while a gate holds":                   {held: held, refused: "old", ignored: "SeveralClusters", soon: true},
		"of no Cluster, when the settings change":                       {requested: off, reason: "Restarting", ignored: "SeveralClusters", soon: true},
		"of one that decides with settings that cannot work, and waits": {requested: func(c *v1alpha1.Cluster) { c.Spec.Region = "" }, refused: "old", ignored: "SeveralClusters"},
	} {
		t.Run(name, func(t *testing.T) {
			was := reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Name, c.CreationTimestamp = "old", metav1.Unix(1, 0) })
			old := was.DeepCopy()
			if c.requested != nil {
				c.requested(old)
			}
			tenant := reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Name, c.CreationTimestamp = "tenant", metav1.Unix(2, 0) })
			refusal := errors.New("etcdserver: request is too large")
			live := fake.NewClientBuilder().WithScheme(reconcilertest.Client(t).Scheme()).WithObjects(tenant, old).WithStatusSubresource(&v1alpha1.Cluster{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, to client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					if o.GetName() == c.refused {
						return refusal
					}
					return to.SubResource(sub).Patch(ctx, o, p, opts...)
				}}).Build()
			elected := make(chan struct{})
			close(elected)
			running := New(Config{Restart: func() {}}, desiredOf(was), time.Now())
			running.Block(c.held)
			w := &reconciler{Supervisor: running, reader: live, writer: live, elected: elected, triedAt: time.Now()}

			got, err := w.Reconcile(t.Context(), ctrl.Request{})

			if (got.RequeueAfter > 0) != c.soon {
				t.Errorf("the next look is in %s", got.RequeueAfter)
			}
			if want := c.refused != "" && !c.soon; errors.Is(err, refusal) != want {
				t.Errorf("error %v, want the refusal: %v", err, want)
			}
			for name, want := range map[string]string{"old": c.reason, "tenant": c.ignored} {
				cluster := &v1alpha1.Cluster{}
				if err := live.Get(t.Context(), client.ObjectKey{Name: name}, cluster); err != nil {
					t.Fatal(err)
				}
				reason := ""
				if ready := meta.FindStatusCondition(cluster.Status.Conditions, "Ready"); ready != nil {
					reason = ready.Reason
				}
				if reason != want {
					t.Errorf("Ready of %s has the reason %q, want %q", name, reason, want)
				}
			}
		})
	}
}

// What AWS or the API server answered may hold a token, or move a terminal's cursor.
func TestTheConditionsOfAClusterAreSanitized(t *testing.T) {
	c := reconcilertest.Cluster(nil)
	live := fake.NewClientBuilder().WithScheme(reconcilertest.Client(t).Scheme()).WithObjects(c).WithStatusSubresource(&v1alpha1.Cluster{}).Build()
	elected := make(chan struct{})
	close(elected)
	running := New(Config{Restart: func() {}}, desiredOf(c), time.Now())
	running.Block(BlockedBy("AWSUnavailable", errors.New("x\x1b[2K ghp_0123456789abcdefABCDEF")))
	w := &reconciler{Supervisor: running, reader: live, writer: live, elected: elected, triedAt: time.Now()}
	if _, err := w.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Ready", "EngineBlocked"} {
		if got := meta.FindStatusCondition(c.Status.Conditions, kind); got == nil || got.Message != `x\x1b[2K (masked)` {
			t.Errorf("%s is %+v", kind, got)
		}
	}
}
