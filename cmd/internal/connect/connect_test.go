package connect

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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

// A Cluster that is renamed in Git is there under both names until a person confirms the
// deletion of the old one.
func TestOfSeveralClustersTheOldestIsRead(t *testing.T) {
	at := func(name, region string, second int64) *v1alpha1.Cluster {
		return eks(func(c *v1alpha1.Cluster) {
			c.Name, c.Spec.Region, c.CreationTimestamp = name, region, metav1.Unix(second, 0)
		})
	}
	live := reader(t, at("a-newer-one", "eu-west-2", 2), at("older-by-its-name", "eu-west-2", 1), at("old", "eu-west-1", 1))
	if got, err := regionOf(t.Context(), live); got != "eu-west-1" || err != nil {
		t.Errorf("parameters are those of %q, %v", got, err)
	}
	if got, err := LiveCluster(live)(t.Context()); got.Cluster != "old" || err != nil {
		t.Errorf("AWS follows %q, %v", got.Cluster, err)
	}
}
