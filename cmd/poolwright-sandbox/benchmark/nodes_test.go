package benchmark

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// claim is a NodeClaim.
func claim(name, initialized string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Initialized", "status": initialized}}},
	}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"})
	object.SetName(name)
	return object
}

func TestNodesRunWhenTheirPodsDoAndTheyAreInitialized(t *testing.T) {
	running := func(i int, phase corev1.PodPhase) client.Object {
		p, ok := pods(i + 1)[i].(*corev1.Pod)
		if !ok {
			t.Fatal("it is no pod")
		}
		p.Status.Phase = phase
		return p
	}
	for name, c := range map[string]struct {
		objects []client.Object
		runs    bool
	}{
		"two pods on two nodes":         {[]client.Object{running(0, corev1.PodRunning), running(1, corev1.PodRunning), claim("a", "True"), claim("b", "True")}, true},
		"a pod is pending":              {[]client.Object{running(0, corev1.PodRunning), running(1, corev1.PodPending), claim("a", "True"), claim("b", "True")}, false},
		"a pod is missing":              {[]client.Object{running(0, corev1.PodRunning), claim("a", "True"), claim("b", "True")}, false},
		"a pod of an earlier life":      {[]client.Object{running(0, corev1.PodRunning), running(1, corev1.PodRunning), running(2, corev1.PodRunning), claim("a", "True"), claim("b", "True")}, false},
		"a node is not initialized":     {[]client.Object{running(0, corev1.PodRunning), running(1, corev1.PodRunning), claim("a", "True"), claim("b", "Unknown")}, false},
		"a node of an earlier life":     {[]client.Object{running(0, corev1.PodRunning), running(1, corev1.PodRunning), claim("a", "True"), claim("b", "True"), claim("c", "True")}, false},
		"one node for both of the pods": {[]client.Object{running(0, corev1.PodRunning), running(1, corev1.PodRunning), claim("a", "True")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := clientgoscheme.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			kind := claim("", "").GroupVersionKind()
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("NodeClaimList"), &unstructured.UnstructuredList{})
			s := NodeSystem{Environment: &Environment{Admin: fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).Build()}}
			if err := s.running(t.Context(), 2); (err == nil) != c.runs {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A pod without an owner is the only one of its batch too, so a comparison of both shows what it costs not to know that.
func TestThePodOfTheReplicaSetIsLikeThoseWithoutAnOwner(t *testing.T) {
	set := replicaSet()
	alone, ok := pods(1)[0].(*corev1.Pod)
	if !ok {
		t.Fatal("it is no pod")
	}
	if d := cmp.Diff(alone.Spec, set.Spec.Template.Spec); d != "" || *set.Spec.Replicas != 1 {
		t.Errorf("%d replicas (-alone +replica):\n%s", *set.Spec.Replicas, d)
	}
	if d := cmp.Diff(alone.Labels, set.Spec.Template.Labels); d != "" {
		t.Errorf("labels (-alone +replica):\n%s", d)
	}
}

func TestTheManifestsOfTheComparisonAreObjects(t *testing.T) {
	for text, want := range map[string]string{nodeClass: "EC2NodeClass", nodePool: "NodePool", clusterObject: "Cluster"} {
		object, err := decodeObject(text)
		if err != nil || object.GetKind() != want || object.GetName() == "" {
			t.Errorf("got %v, %v", object, err)
		}
	}
	if _, err := decodeObject("{"); err == nil {
		t.Error("what is no object was read")
	}
}
