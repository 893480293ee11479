package check

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// declaredCluster is a Cluster of generation 2 with conditions, each as type, status, reason, message.
func declaredCluster(name string, age time.Duration, conditions ...[4]string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2, CreationTimestamp: metav1.NewTime(now().Add(-age))}}
	c.Status.Conditions = conditionsOf(2, conditions)
	return c
}

func conditionsOf(generation int64, conditions [][4]string) []metav1.Condition {
	var out []metav1.Condition
	for _, x := range conditions {
		out = append(out, metav1.Condition{Type: x[0], Status: metav1.ConditionStatus(x[1]), Reason: x[2], Message: x[3], ObservedGeneration: generation})
	}
	return out
}

func TestTheEngineIsReportedAsTheClusterHasIt(t *testing.T) {
	stale := declaredCluster("dev", time.Hour, [4]string{"Ready", "True", "EngineRunning", "Karpenter runs inside the controller"})
	stale.Generation = 3
	for name, c := range map[string]struct {
		has  []client.Object
		want []expected
	}{
		"an engine that runs": {[]client.Object{declaredCluster("dev", time.Hour, [4]string{"Ready", "True", "EngineRunning", "Karpenter runs inside the controller"})}, []expected{{OK, "Cluster dev", "EngineRunning: Karpenter runs", ""}}},
		"an engine elsewhere": {[]client.Object{declaredCluster("dev", time.Hour, [4]string{"Ready", "True", "External", "another Karpenter provisions nodes"})}, []expected{{OK, "Cluster dev", "External", ""}}},
		"a gate that is closed": {[]client.Object{declaredCluster("dev", time.Hour, [4]string{"Ready", "False", "AccountMismatch", "gate Account: the credentials belong to account 1: correct it"}, [4]string{"EngineBlocked", "True", "AccountMismatch", "x"})},
			[]expected{{Failed, "Cluster dev", "a gate blocks the engine: gate Account", "#the-gates"}}},
		"settings that are invalid": {[]client.Object{declaredCluster("dev", time.Hour, [4]string{"Ready", "False", "InvalidSettings", "batch"})}, []expected{{Failed, "Cluster dev", "InvalidSettings: batch", "#status"}}},
		"a restart":                 {[]client.Object{declaredCluster("dev", time.Hour, [4]string{"Ready", "False", "Restarting", "x"})}, []expected{{Warning, "Cluster dev", "Restarting", ""}}},
		"a spec that is newer":      {[]client.Object{stale}, []expected{{Warning, "Cluster dev", "has not reconciled the newest spec", ""}}},
		"no status":                 {[]client.Object{declaredCluster("dev", time.Hour)}, []expected{{Warning, "Cluster dev", "has not reconciled", ""}}},
		"no Cluster":                {nil, []expected{{Warning, "", "no Cluster", "cluster.md"}}},
		"two Clusters": {[]client.Object{declaredCluster("a", time.Hour, [4]string{"Ready", "True", "EngineRunning", "x"}), declaredCluster("b", time.Minute)},
			[]expected{{OK, "Cluster a", "EngineRunning", ""}, {Warning, "Cluster b", "Cluster a is older, and is used", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, c.want, fixture{objects: c.has}.checker(t).engine(t.Context()))
		})
	}
}

func TestAWSIsReportedAsTheClusterHasIt(t *testing.T) {
	with := func(status, reason, message string) []client.Object {
		c := declaredCluster("dev", time.Hour, [4]string{"AWSInSync", status, reason, message})
		c.Status.AWS = &v1alpha1.AWSStatus{}
		return []client.Object{c}
	}
	for name, c := range map[string]struct {
		has  []client.Object
		want expected
	}{
		"as declared":                  {with("True", "InSync", "all declared resources are in sync"), expected{OK, "Cluster dev", "in sync", ""}},
		"a difference":                 {with("False", "Drifted", "1 resource drifted"), expected{Warning, "Cluster dev", "1 resource", "adopt"}},
		"a permission that is missing": {with("Unknown", "PartlyUnknown", "1 resource unknown, the first: Queue: sqs:GetQueueAttributes is denied"), expected{Failed, "Cluster dev", "sqs:GetQueueAttributes", "config/iam"}},
		"nothing of AWS":               {[]client.Object{declaredCluster("dev", time.Hour)}, expected{Skipped, "", "nothing of AWS", ""}},
		"no Cluster":                   {nil, expected{Skipped, "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []expected{c.want}, fixture{objects: c.has}.checker(t).aws(t.Context()))
		})
	}
}

func sync(name string, change func(*v1alpha1.Sync), conditions ...[4]string) *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	s.Status.Conditions = conditionsOf(0, conditions)
	if change != nil {
		change(s)
	}
	return s
}

func TestSyncsThatAreNotReadyAreListedWithTheirReasons(t *testing.T) {
	ready := [4]string{"Ready", "True", "ReconciliationSucceeded", "applied"}
	has := []client.Object{
		sync("a", nil, ready), sync("b", nil, ready),
		sync("c", nil, [4]string{"Ready", "False", "Unauthorized", `fetching https://me:hunter2@git.example.com: credentials are refused`}),
		sync("d", func(s *v1alpha1.Sync) {
			s.Spec.Suspend = true
			s.Annotations = map[string]string{v1alpha1.SuspendReasonAnnotation: "EKS is being upgraded", v1alpha1.SuspendUntilAnnotation: "2026-11-28T18:00:00Z"}
		}, ready),
		sync("e", func(s *v1alpha1.Sync) { s.Namespace = "default" }),
		sync("h", func(s *v1alpha1.Sync) {
			s.Annotations = map[string]string{v1alpha1.RollbackAnnotation: "e15a32f", v1alpha1.RollbackReasonAnnotation: "nodes hang"}
		}, ready),
		sync("i", func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.RollbackAnnotation: "e15a32f"} }, [4]string{"Ready", "False", "ReferenceNotFound", "no such commit"}),
		sync("j", func(s *v1alpha1.Sync) {
			s.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "infra"}
			s.Annotations = map[string]string{v1alpha1.RollbackAnnotation: "e15a32f"}
		}, ready),
		sync("f", nil),
		sync("g", nil, [4]string{"Ready", "Unknown", "Progressing", "waiting"}),
	}
	compare(t, []expected{
		{OK, "", "2 of 10 are ready", ""},
		{Warning, "Sync default/e", "only those of the controller's namespace", "create it in namespace " + home},
		{Failed, "Sync " + home + "/c", "Unauthorized: fetching", "sync.md#conditions"},
		{Warning, "Sync " + home + "/d", "it is suspended until 2026-11-28T18:00:00Z: EKS is being upgraded", "poolwright resume d"},
		{Warning, "Sync " + home + "/f", "not been reconciled", ""},
		{Warning, "Sync " + home + "/g", "Progressing: waiting", ""},
		{Warning, "Sync " + home + "/h", "it is rolled back to main@sha1:e15a32f: nodes hang", "poolwright resume h"},
		{Failed, "Sync " + home + "/i", "ReferenceNotFound: no such commit", "sync.md#conditions"},
		{Warning, "Sync " + home + "/j", "has no effect: the Sync follows GitRepository/" + home + "/infra", "poolwright resume j"},
	}, fixture{objects: has}.checker(t).syncs(t.Context()))
	compare(t, []expected{{Warning, "", "no Sync", "follow-a-repository"}}, fixture{}.checker(t).syncs(t.Context()))
}

func TestASyncThatTheControllerDoesNotSelectIsNotReady(t *testing.T) {
	ready := [4]string{"Ready", "True", "ReconciliationSucceeded", "applied"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: installation.Deployment}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Args: []string{"run", "--watch-label-selector=stage=canary"}}}
	reviewed := func(s *v1alpha1.Sync) {
		s.Spec.PullRequests, s.Status.PullRequests = &v1alpha1.PullRequests{}, &v1alpha1.PullRequestsStatus{}
	}
	has := []client.Object{
		d, sync("a", func(s *v1alpha1.Sync) { s.Labels = map[string]string{"stage": "canary"}; reviewed(s) }, ready),
		sync("b", reviewed, ready), sync("c", func(s *v1alpha1.Sync) { s.Spec.Suspend = true }, ready),
	}
	compare(t, []expected{
		{OK, "", "1 of 3 are ready", ""},
		{Warning, "Sync " + home + "/b", "not reconciled: its labels do not match --watch-label-selector=stage=canary", "add the labels"},
		{Warning, "Sync " + home + "/c", "not reconciled: its labels do not match", "add the labels"},
	}, fixture{objects: has}.checker(t).syncs(t.Context()))
	compare(t, []expected{{OK, "", "pull requests of 1 can be read", ""}}, fixture{objects: has}.checker(t).pullRequests(t.Context()))

	d.Spec.Template.Spec.Containers[0].Args = []string{"--watch-label-selector=="}
	compare(t, []expected{
		{Failed, "", "--watch-label-selector", ""},
		{Warning, "Sync " + home + "/c", "suspended", ""},
		{Skipped, "", "2 of 3 have Ready=True; it is not known whether the controller reconciles them", ""},
	}, fixture{objects: has}.checker(t).syncs(t.Context()))
	compare(t, []expected{{Failed, "", "--watch-label-selector", ""}}, fixture{objects: has}.checker(t).pullRequests(t.Context()))
}

func TestAForgeThatCannotBeReadIsAFailure(t *testing.T) {
	of := func(name string, status *v1alpha1.PullRequestsStatus) *v1alpha1.Sync {
		return sync(name, func(s *v1alpha1.Sync) {
			s.Spec.PullRequests, s.Status.PullRequests = &v1alpha1.PullRequests{}, status
		})
	}
	has := []client.Object{
		of("a", &v1alpha1.PullRequestsStatus{}), of("b", &v1alpha1.PullRequestsStatus{Reason: "RateLimited", Message: "until 12:30"}), of("c", nil), sync("d", nil),
	}
	compare(t, []expected{
		{OK, "", "pull requests of 1 can be read", ""},
		{Failed, "Sync " + home + "/b", "RateLimited: until 12:30", "pull-requests.md"},
		{Warning, "Sync " + home + "/c", "not been read yet", ""},
	}, fixture{objects: has}.checker(t).pullRequests(t.Context()))
	compare(t, []expected{{Skipped, "", "no Sync has", ""}}, fixture{objects: has[3:]}.checker(t).pullRequests(t.Context()))
}

func TestDevicePluginsAreReportedByTheirCondition(t *testing.T) {
	of := func(name string, conditions ...[4]string) *v1alpha1.DevicePlugin {
		d := &v1alpha1.DevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
		d.Status.Conditions = conditionsOf(0, conditions)
		return d
	}
	compare(t, []expected{
		{OK, "DevicePlugin a", "2 of 2 nodes", ""},
		{Failed, "DevicePlugin b", "NodesUnhealthy: NoDriver", "deviceplugin.md"},
		{Warning, "DevicePlugin c", "not been reconciled", ""},
	}, fixture{objects: []client.Object{
		of("a", [4]string{"Ready", "True", "Ready", "2 of 2 nodes"}), of("b", [4]string{"Ready", "False", "NodesUnhealthy", "NoDriver"}), of("c"),
	}}.checker(t).devicePlugins(t.Context()))
	compare(t, []expected{{Skipped, "", "no DevicePlugin", ""}}, fixture{}.checker(t).devicePlugins(t.Context()))
}
