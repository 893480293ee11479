package integration

import (
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

// holdToPolicy lets the engine do in AWS only what its policy allows.
func (w *fixture) holdToPolicy(t *testing.T) {
	t.Helper()
	text, err := iampolicy.Engine(iampolicy.Values{
		Partition: "aws", Region: w.settings.Region, Account: w.settings.Account, Cluster: w.settings.Cluster,
		NodeRole: w.aws.Roles[0], Queue: w.settings.InterruptionQueue,
	})
	if err != nil {
		t.Fatal(err)
	}
	document, err := policy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	w.policy = []policy.Document{document}
	w.AWS.Restrict(w.Env()["AWS_ACCESS_KEY_ID"], w.policy, nil)
}

// aDeniedDryRun has EC2 refuse one of the requests by which Karpenter validates a class, and the class state which.
func (w *fixture) aDeniedDryRun(t *testing.T) {
	key := w.Env()["AWS_ACCESS_KEY_ID"]
	t.Cleanup(func() { w.AWS.Restrict(key, w.policy, nil) })
	for name, c := range map[string]struct{ action, reason string }{
		"denied-run-instances": {"ec2:RunInstances", "RunInstancesAuthCheckFailed"},
		"denied-create-fleet":  {"ec2:CreateFleet", "CreateFleetAuthCheckFailed"},
	} {
		t.Run(c.action, func(t *testing.T) {
			denied, err := policy.Parse(`{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "` + c.action + `", "Resource": "*"}]}`)
			if err != nil {
				t.Fatal(err)
			}
			w.AWS.Restrict(key, append(slices.Clone(w.policy), denied), nil)
			class, _, _ := w.pool()
			class.Name = name
			if err := w.client.Create(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			var validation *status.Condition
			defer func() {
				if t.Failed() {
					t.Logf("the class is validated: %+v", validation)
				}
			}()
			w.eventually(t, "the class to have "+c.reason, func() bool {
				err := w.client.Get(t.Context(), client.ObjectKeyFromObject(class), class)
				validation = class.StatusConditions().Get(awsv1.ConditionTypeValidationSucceeded)
				return err == nil && validation.IsFalse() && validation.Reason == c.reason
			})
			w.AWS.Restrict(key, w.policy, nil)
			if err := w.client.Delete(t.Context(), class); err != nil {
				t.Fatal(err)
			}
			w.eventually(t, "the class to go", func() bool {
				return apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKeyFromObject(class), class))
			})
		})
	}
}

// aNodesLife launches a node for a pod and ends it after the pod, with an
// instance profile that Karpenter makes and takes away: every call that writes.
func (w *fixture) aNodesLife(t *testing.T) {
	class, pool, pod := w.pool()
	t.Cleanup(func() {
		if t.Failed() {
			w.got.show(t)
		}
	})
	for _, o := range []client.Object{class, pool, pod} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually(t, "the pod to run on a node of its own", func() bool {
		err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == corev1.PodRunning
	})
	w.eventually(t, "the instance to get its late tags", func() bool { return w.called("ec2", "CreateTags") })
	for _, o := range []client.Object{pod, pool, class} {
		if err := w.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually(t, "the class to go with all that was made for it", func() bool {
		return apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKeyFromObject(class), class))
	})
	for _, write := range []string{
		"ec2 CreateLaunchTemplate", "ec2 CreateFleet", "ec2 RunInstances", "ec2 CreateTags", "ec2 TerminateInstances", "ec2 DeleteLaunchTemplate",
		"iam CreateInstanceProfile", "iam AddRoleToInstanceProfile", "iam RemoveRoleFromInstanceProfile", "iam DeleteInstanceProfile",
		"sqs ReceiveMessage",
	} {
		service, operation, _ := strings.Cut(write, " ")
		if !w.called(service, operation) {
			t.Errorf("the engine never called %s, so this proves nothing of it", write)
		}
	}
}

// nothingWasDenied holds every call that arrived so far against the policy.
func (w *fixture) nothingWasDenied(t *testing.T) {
	var requested []string
	for _, call := range w.AWS.Calls() {
		for _, d := range call.Denied(w.policy, nil) {
			t.Errorf("%s: %s", call.Params, d)
		}
		for _, q := range call.Authorizations {
			requested = append(requested, q.Action)
		}
	}
	slices.Sort(requested)
	t.Logf("the engine asked for %s", strings.Join(slices.Compact(requested), " "))
}

// called tells whether the operation succeeded at least once.
func (w *fixture) called(service, operation string) bool {
	for _, call := range w.AWS.Calls() {
		if call.Service == service && call.Operation == operation && call.Done && (call.Code == "" || call.Code == "DryRunOperation") {
			return true
		}
	}
	return false
}

// pool is a node class with a role, a pool on it, and a pod for it.
func (w *fixture) pool() (*awsv1.EC2NodeClass, *karpv1.NodePool, *corev1.Pod) {
	mine := map[string]string{"karpenter.sh/discovery": w.settings.Cluster}
	name := metav1.ObjectMeta{Name: "held"}
	class := &awsv1.EC2NodeClass{ObjectMeta: name, Spec: awsv1.EC2NodeClassSpec{
		Role: w.aws.Roles[0], AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
		SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: mine}},
		SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: mine}},
		Tags:                       map[string]string{"team": "ml"},
	}}
	pool := &karpv1.NodePool{ObjectMeta: name}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: class.Name}
	for key, values := range map[string][]string{corev1.LabelInstanceTypeStable: {"m5.large", "m6i.large"}, karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeSpot}} {
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: values,
		})
	}
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	grace := int64(1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "held", Namespace: "default"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{karpv1.NodePoolLabelKey: pool.Name}, TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/app:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}},
	}}
	return class, pool, pod
}
