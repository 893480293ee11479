package connect

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// A Cluster that is renamed in Git is there under both names until a person confirms the
// deletion of the old one.
func TestOfSeveralClustersTheOldestIsRead(t *testing.T) {
	at := func(name, region string, second int64) *v1alpha1.Cluster {
		return reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
			c.Name, c.Spec.Region, c.CreationTimestamp = name, region, metav1.Unix(second, 0)
		})
	}
	live := reconcilertest.Client(t, at("a-newer-one", "eu-west-2", 2), at("older-by-its-name", "eu-west-2", 1), at("old", "eu-west-1", 1))
	if got, err := regionOf(t.Context(), live); got != "eu-west-1" || err != nil {
		t.Errorf("parameters are those of %q, %v", got, err)
	}
	if got, err := LiveCluster(live)(t.Context()); got.Cluster != "old" || err != nil {
		t.Errorf("AWS follows %q, %v", got.Cluster, err)
	}
}
