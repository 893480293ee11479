package integration

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/engine/gate"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// gatesClose breaks one thing at a time in the living environment, and puts it back.
func (w *fixture) gatesClose(t *testing.T) {
	for _, test := range []struct {
		name     string
		breakIt  func(*testing.T, *gate.Gates)
		closed   gate.Name
		unproven bool
	}{
		{"Auto Mode", func(t *testing.T, g *gate.Gates) { w.setAutoMode(t) }, gate.AutoMode, false},
		{"another account", func(_ *testing.T, g *gate.Gates) { g.Account = "999999999999" }, gate.Account, false},
		{"another Karpenter", func(t *testing.T, _ *gate.Gates) { w.otherKarpenter(t) }, gate.OtherKarpenter, false},
		{"EC2 that denies", func(t *testing.T, _ *gate.Gates) { w.deny(t, "ec2", "DescribeInstances") }, gate.GarbageCollection, true},
		{"STS that denies", func(t *testing.T, _ *gate.Gates) { w.deny(t, "sts", "GetCallerIdentity") }, gate.Account, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := w.gates(t)
			test.breakIt(t, &g)
			closed, err := g.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(closed) != 1 || closed[0].Gate != test.closed || closed[0].Unproven != test.unproven {
				t.Errorf("closed gates: %v", closed)
			}
		})
	}
}

func (w *fixture) setAutoMode(t *testing.T) {
	t.Helper()
	cluster := w.aws.Cluster
	rest := w.REST()
	cluster.Endpoint, cluster.CA = rest.Host, rest.CAData
	was := cluster
	cluster.AutoMode = true
	if err := w.AWS.SetCluster(cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.AWS.SetCluster(was); err != nil {
			t.Error(err)
		}
	})
}

func (w *fixture) otherKarpenter(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karpenter"}}
	if err := w.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	holder, renewed := "karpenter-0", metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "karpenter-leader-election"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
	if err := w.client.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.client.Delete(context.Background(), lease); err != nil {
			t.Error(err)
		}
	})
}

func (w *fixture) deny(t *testing.T, service, operation string) {
	t.Helper()
	lift, err := w.AWS.Inject(sandboxaws.Fault{Service: service, Operation: operation, Code: "AccessDenied", Status: 403})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lift)
}
