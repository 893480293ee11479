package bootstrap

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/provision/engine/takeover"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// The holder's clock says nothing: it is an hour ahead, and what counts is how
// long the lease does not move by ours.
func TestALeaseIsInheritedOnlyWhenNobodyRenewsIt(t *testing.T) {
	key := client.ObjectKey{Namespace: "kube-system", Name: takeover.Lease}
	holder, lasts := "pod-1_x", int32(15)
	ahead := metav1.NewMicroTime(time.Now().Add(time.Hour))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &ahead, LeaseDurationSeconds: &lasts},
	}
	now := time.Now()
	v := &leaseTakeover{Client: reconcilertest.InstalledClient(t, lease), key: key, now: func() time.Time { return now }}
	read := func(want bool, text string) {
		t.Helper()
		done, got, err := v.check(t.Context())
		if done != want || err != nil || !strings.Contains(got, text) {
			t.Fatalf("done %t, %q, %v", done, got, err)
		}
	}
	renew := func() {
		t.Helper()
		var l coordinationv1.Lease
		if err := v.Get(t.Context(), key, &l); err != nil {
			t.Fatal(err)
		}
		later := metav1.NewMicroTime(l.Spec.RenewTime.Add(2 * time.Second))
		l.Spec.RenewTime = &later
		if err := v.Update(t.Context(), &l); err != nil {
			t.Fatal(err)
		}
	}
	read(false, "of pod-1_x")
	now = now.Add(17 * time.Second)
	read(false, "not renewed for 18s")
	renew()
	now = now.Add(2 * time.Second)
	read(false, "waiting")
	now = now.Add(18 * time.Second)
	read(true, "")
	var after coordinationv1.Lease
	if err := v.Get(t.Context(), key, &after); err != nil || *after.Spec.HolderIdentity != "" {
		t.Errorf("the holder is %q, %v", *after.Spec.HolderIdentity, err)
	}
	read(true, "")
}

func TestALeaseThatIsNotThereIsNobodys(t *testing.T) {
	v := &leaseTakeover{Client: reconcilertest.InstalledClient(t), key: client.ObjectKey{Namespace: "kube-system", Name: takeover.Lease}, now: time.Now}
	if done, _, err := v.check(t.Context()); !done || err != nil {
		t.Errorf("done %t, %v", done, err)
	}
}

// The holder's clock says nothing here either: a leader is one whose lease moves while we
// look, and not for longer than it lasts by ours.
func TestALeaderIsOneThatRenewsItsLeaseBetweenTwoReads(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"its clock is ours":       0,
		"its clock is far ahead":  5 * time.Minute,
		"its clock is far behind": -5 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			lease := leading("pod-1", ahead, true)
			kube, now := reconcilertest.InstalledClient(t, lease), time.Now()
			w := leaderWatch{now: func() time.Time { return now }}
			for _, step := range []struct {
				what   string
				after  time.Duration
				renews string // who, or nobody
				leads  bool
			}{
				{"is observed first", 0, "", false},
				{"has not moved", 2 * time.Second, "", false},
				{"moves", 2 * time.Second, "pod-1", true},
				{"may still last", leaderelection.LeaseDuration - 3*time.Second, "", true},
				{"may have ended", time.Second, "", false},
				{"moves again", time.Second, "pod-1", true},
				{"moved between two reads", 2 * leaderelection.LeaseDuration, "pod-1", false},
				{"moves from read to read", time.Second, "pod-1", true},
				{"is taken by another", time.Second, "pod-2", false},
				{"does not move for that one", time.Second, "", false},
				{"moves for that one", time.Second, "pod-2", true},
			} {
				now = now.Add(step.after)
				if step.renews != "" {
					later := metav1.NewMicroTime(lease.Spec.RenewTime.Add(step.after))
					lease.Spec.HolderIdentity, lease.Spec.RenewTime = &step.renews, &later
					if err := kube.Update(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				if _, leads, err := w.read(t.Context(), kube, ""); leads != step.leads || err != nil {
					t.Errorf("when the lease %s: somebody leads: %t, %v", step.what, leads, err)
				}
			}
		})
	}
}
