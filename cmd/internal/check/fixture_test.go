package check

import (
	"context"
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

const home = "poolwright-system"

func now() time.Time { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }

// fixture is a cluster to be checked.
type fixture struct {
	objects []client.Object
	// kinds are those that the API server has beside the scheme's.
	kinds []schema.GroupVersionKind
	// denied are permissions that whoever checks does not have, such as "create namespaces".
	denied []string
	// fails is what reading any list returns.
	fails error
	// version is the API server's; an empty one does not respond.
	version string
	pre     bool
}

// checker makes the checks of the fixture.
func (f fixture) checker(t *testing.T) *checker {
	t.Helper()
	reconcilertest.InstalledClient(t) // completes the scheme
	var versions []schema.GroupVersion
	for _, gvk := range f.kinds {
		versions = append(versions, gvk.GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	for _, gvk := range f.kinds {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	kube := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithRESTMapper(mapper).WithObjects(f.objects...).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			review, is := object.(*authorizationv1.SelfSubjectAccessReview)
			if !is {
				return errors.New("a check writes")
			}
			review.Status.Allowed = true
			for _, denied := range f.denied {
				if rightText(*review.Spec.ResourceAttributes) == denied {
					review.Status.Allowed = false
				}
			}
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if f.fails != nil {
				return f.fails
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	return &checker{Request{
		Kube: kube, Namespace: home, Pre: f.pre, Version: "v0.1.0", Server: "https://eks.example.com", Timeout: 5 * time.Second,
		Now: now, LeaseRecheck: time.Millisecond, Explain: func(err error) error { return err },
		ServerVersion: func(context.Context) (string, error) {
			if f.version == "" {
				return "", errors.New("connection refused")
			}
			return f.version, nil
		},
	}}
}

// expected is the outcome of a check: its status, the object, and parts of message and remedy.
type expected struct {
	status          Status
	object          string
	message, remedy string
}

// node has so much memory and CPU, and is ready.
func node(name, cpu, memory string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("11")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

// pod requests so much on a node.
func pod(name, on, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"},
		Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}},
		}}},
	}
}
