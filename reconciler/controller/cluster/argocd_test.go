package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// The Clusters that the scripts of config/argocd are tested with, in .ci/argocd.
func TestTheClustersThatArgoCDsScriptsAreTestedWithHaveTheStatusOfRealRuns(t *testing.T) {
	type rows []struct {
		Name   string            `json:"name"`
		Object *v1alpha1.Cluster `json:"object"`
	}
	mode := func(m v1alpha1.EngineMode) func(*v1alpha1.Cluster) {
		return func(c *v1alpha1.Cluster) { c.Spec.Engine.Mode = m }
	}
	none := func(*v1alpha1.Cluster) {}
	var all rows
	for _, test := range []struct {
		name string
		// before is the Cluster as the process started, and after what is changed since.
		before, after func(*v1alpha1.Cluster)
		blocked       *Blocked
		aws           bool
		ignored       bool
		unobserved    bool
	}{
		{name: "the controller has not observed it", unobserved: true},
		{name: "the engine runs"},
		{name: "the engine runs, and AWS differs", aws: true},
		{name: "no engine is declared", before: mode(v1alpha1.EngineOff)},
		{name: "another Karpenter is declared", before: mode(v1alpha1.EngineExternal)},
		{name: "the controller restarts to follow changed settings", after: func(c *v1alpha1.Cluster) { c.Spec.Region = "eu-central-1" }},
		{name: "a setting is invalid", after: func(c *v1alpha1.Cluster) { c.Spec.Region = "" }},
		{name: "another Karpenter leads", blocked: &Blocked{Reason: string(gate.OtherKarpenter), Message: "karpenter-1 renewed the lease kube-system/karpenter-leader-election"}},
		{name: "AWS cannot be reached", blocked: &Blocked{Reason: "AWSUnavailable", Message: "no credentials were found"}, aws: true},
		{name: "an older Cluster decides", ignored: true},
	} {
		was := reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Generation, c.CreationTimestamp = 1, metav1.Unix(2, 0) })
		if test.before == nil {
			test.before = none
		}
		test.before(was)
		now := was.DeepCopy()
		if test.after != nil {
			now.Generation = 2
			test.after(now)
		}
		objects := []client.Object{now}
		if test.ignored {
			objects = append(objects, reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Name, c.CreationTimestamp = "older", metav1.Unix(1, 0) }))
		}
		live := fake.NewClientBuilder().WithScheme(reconcilertest.Client(t).Scheme()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Cluster{}).Build()
		elected := make(chan struct{})
		close(elected)
		s := New(Config{Restart: func() {}}, desiredOf(was), time.Now())
		s.Block(test.blocked)
		if test.aws {
			report(s.AWS, "dev", awsStatus("cluster", 5, 1, 0))
		}
		w := &reconciler{Supervisor: s, reader: live, writer: live, elected: elected, triedAt: time.Now()}
		if !test.unobserved {
			if _, err := w.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
		}
		got := &v1alpha1.Cluster{}
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(now), got); err != nil {
			t.Fatal(err)
		}
		got.APIVersion, got.Kind, got.ResourceVersion = v1alpha1.GroupVersion.String(), "Cluster", ""
		for i := range got.Status.Conditions { // The API machinery takes them from the clock of the machine.
			got.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		}
		all = append(all, rows{{test.name, got}}...)
	}
	raw, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../../.ci/argocd/testdata/clusters.yaml", raw)
}
