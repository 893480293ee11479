package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func eks(edit func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	c.Spec = v1alpha1.ClusterSpec{Name: "dev", Region: "eu-west-1", Account: "111122223333", Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineEmbedded}}
	if edit != nil {
		edit(c)
	}
	return c
}

func reader(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestTheLeaseTellsOthersWhetherTheEngineRuns(t *testing.T) {
	a := &app{cfg: Config{Namespace: "ours"}}
	on, off := a.managerOptions(true).LeaderElectionLabels, a.managerOptions(false).LeaderElectionLabels
	if diff := cmp.Diff(gate.LeaseLabels(true), on); diff != "" {
		t.Errorf("with the engine (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gate.LeaseLabels(false), off); diff != "" || cmp.Equal(on, off) {
		t.Errorf("without the engine (-want +got):\n%s", diff)
	}
}
