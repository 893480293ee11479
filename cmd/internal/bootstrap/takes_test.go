package bootstrap

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/provision/engine/takeover"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// undetectedKarpenter elects no leader.
func undetectedKarpenter(replicas int32) *appsv1.Deployment {
	d := karpenters("karpenter")[0]
	d.Spec.Replicas = &replicas
	env := &d.Spec.Template.Spec.Containers[0].Env
	*env = append(*env, corev1.EnvVar{Name: "DISABLE_LEADER_ELECTION", Value: "true"})
	return d
}

func TestNoEngineIsInstalledBesideAKarpenterThatItsGateWouldNotDetect(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int32
		mode     v1alpha1.EngineMode
		refuses  bool
	}{
		"it runs":                  {1, v1alpha1.EngineEmbedded, true},
		"it was scaled down":       {0, v1alpha1.EngineEmbedded, false},
		"the engine is not to run": {1, v1alpha1.EngineExternal, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := reconcilertest.Cluster(nil).Spec
			spec.Engine.Mode = c.mode
			b := &Bootstrap{direct: reconcilertest.InstalledClient(t, undetectedKarpenter(c.replicas))}
			err := b.findOthers(t.Context(), declaredEKS{spec: spec})
			if (err != nil) != c.refuses || err != nil && !strings.Contains(err.Error(), "DISABLE_LEADER_ELECTION is set") {
				t.Errorf("%v", err)
			}
		})
	}
}

// leading is the controller's lease, of the empty namespace, renewed by a clock that is so
// far ahead of ours.
func leading(holder string, ahead time.Duration, engine bool) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Now().Add(ahead))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaderelection.LeaseName, Labels: gate.LeaseLabels(engine)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
}

// renewing is an API server on which whoever holds the controller's lease renews it
// between any two looks.
func renewing(kube client.Client) client.Client {
	var passed time.Duration
	get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, o, opts...)
		if lease, ok := o.(*coordinationv1.Lease); ok && err == nil && key.Name == leaderelection.LeaseName {
			passed += 2 * time.Second
			later := metav1.NewMicroTime(lease.Spec.RenewTime.Add(passed))
			lease.Spec.RenewTime = &later
		}
		return err
	}
	return interceptor.NewClient(kube.(client.WithWatch), interceptor.Funcs{Get: get})
}

// Whoever scaled the other Karpenter down on the word of a controller that is gone would
// do so with the engine's gates without confirmation.
func TestATakeOverTrustsOnlyTheReportOfALeadingController(t *testing.T) {
	const waits = "waiting until"
	for name, c := range map[string]struct {
		reason      string
		lease       *coordinationv1.Lease
		crashed     bool // nobody renews
		scales, run bool
	}{
		"the engine runs":                                   {cluster.EngineRunning, leading("pod-1", 0, true), false, true, true},
		"it runs, and its clock is ahead of ours":           {cluster.EngineRunning, leading("pod-1", 5*time.Minute, true), false, true, true},
		"it runs, and its clock is behind ours":             {cluster.EngineRunning, leading("pod-1", -5*time.Minute, true), false, true, true},
		"it ran, and nobody ever led":                       {cluster.EngineRunning, nil, false, false, false},
		"it ran, and the controller was scaled to zero":     {cluster.EngineRunning, leading("", 0, true), false, false, false},
		"it ran, and the controller crashed just now":       {cluster.EngineRunning, leading("pod-1", 0, true), true, false, false},
		"it ran, and its clock was ahead when it crashed":   {cluster.EngineRunning, leading("pod-1", 5*time.Minute, true), true, false, false},
		"it ran, and its clock was behind when it crashed":  {cluster.EngineRunning, leading("pod-1", -5*time.Minute, true), true, false, false},
		"it ran, and who leads now does without":            {cluster.EngineRunning, leading("pod-2", 0, false), false, false, false},
		"another Karpenter holds it":                        {gate.OtherKarpenterRunning, leading("pod-1", 0, false), false, true, false},
		"another Karpenter holds it, by a clock behind":     {gate.OtherKarpenterRunning, leading("pod-1", -5*time.Minute, false), false, true, false},
		"another Karpenter held it, and nobody leads now":   {gate.OtherKarpenterRunning, leading("", 0, false), false, false, false},
		"another Karpenter held it when our leader crashed": {gate.OtherKarpenterRunning, leading("pod-1", 5*time.Minute, false), true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{reconcilertest.Cluster(func(e *v1alpha1.Cluster) {
				e.Status.Conditions = []metav1.Condition{{Type: "Ready", Reason: c.reason, LastTransitionTime: metav1.Now()}}
			})}
			if c.lease != nil {
				objects = append(objects, c.lease)
			}
			kube, now := reconcilertest.InstalledClient(t, objects...), time.Now()
			if !c.crashed {
				kube = renewing(kube)
			}
			b := &Bootstrap{direct: kube, leader: leaderWatch{now: func() time.Time { return now }}}
			for _, read := range []string{"first", "second"} {
				want := c.scales && read == "second"
				scales, got, err := b.onlyOneWaits(t.Context())
				if scales != want || err != nil || strings.HasPrefix(got, waits) == scales {
					t.Errorf("at the %s look it scales the other one down: %t, %q, %v", read, scales, got, err)
				}
				now = now.Add(installation.PollInterval)
			}
			if runs, got, err := b.engineRuns(t.Context()); runs != c.run || err != nil || strings.HasPrefix(got, waits) == runs {
				t.Errorf("the engine runs: %t, %q, %v", runs, got, err)
			}
		})
	}
}

// The pods of the Deployment do not start, so that the engine runs already: what
// might start them is taken away at once. Who comes back later goes on.
func TestATakeOverNotesTheReplicasAndCanBeRunAgain(t *testing.T) {
	synctest.Test(t, takesOverTwice)
}

func takesOverTwice(t *testing.T) {
	d, three := karpenters("karpenter")[0], int32(3)
	d.Spec.Replicas = &three
	running := reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: cluster.EngineRunning, LastTransitionTime: metav1.Now()}}
	})
	kube := renewing(reconcilertest.InstalledClient(t, d, running, leading("pod-1", 0, true)))
	for _, turn := range []string{"first", "again"} {
		var got []string
		b := &Bootstrap{direct: kube, leader: leaderWatch{now: time.Now}}
		b.req = Request{TakeOver: true, Progress: func(line string) { got = append(got, line) }}
		if err := b.findOthers(t.Context(), declaredEKS{spec: running.Spec}); err != nil {
			t.Fatal(err)
		}
		if takes, err := b.TakesOver(); takes != "kube-system/karpenter" || err != nil {
			t.Fatalf("%s: takes over from %q, %v", turn, takes, err)
		}
		if err := b.TakeOver(t.Context(), time.Minute); err != nil {
			t.Fatalf("%s: %v", turn, err)
		}
		if all := strings.Join(got, "\n"); !strings.Contains(all, "--replicas=3") {
			t.Errorf("%s: it said\n%s", turn, all)
		}
		var now appsv1.Deployment
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(d), &now); err != nil || *now.Spec.Replicas != 0 || now.Annotations[takeover.ReplicasAnnotation] != "3" {
			t.Errorf("%s: %d replicas, %v, %v", turn, *now.Spec.Replicas, now.Annotations, err)
		}
	}
}

func TestALeaseThatMayNotBePatchedOnlyTakesLonger(t *testing.T) {
	key := client.ObjectKey{Namespace: "leases", Name: takeover.Lease}
	holder, renewed := "pod-1_x", metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed}}
	forbidden := func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, key.Name, nil)
	}
	now := time.Now()
	v := &leaseTakeover{Client: interceptor.NewClient(reconcilertest.InstalledClient(t, lease).(client.WithWatch), interceptor.Funcs{Patch: forbidden}), key: key, now: func() time.Time { return now }}
	if done, _, err := v.check(t.Context()); done || err != nil {
		t.Fatalf("done %t, %v", done, err)
	}
	now = now.Add(time.Minute)
	if done, got, err := v.check(t.Context()); !done || err != nil || !strings.Contains(got, "a minute more") {
		t.Errorf("done %t, %q, %v", done, got, err)
	}
}
