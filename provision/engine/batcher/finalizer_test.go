package batcher_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/engine/batcher"
)

func TestOnlyNodeClaimsAreCreatedWithTheFinalizer(t *testing.T) {
	name := metav1.ObjectMeta{Name: "one", Namespace: "default"}
	for what, tt := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a NodeClaim":                       {&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, []string{karpv1.TerminationFinalizer}},
		"a NodeClaim with another":          {&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "one", Finalizers: []string{"example.com/kept"}}}, []string{"example.com/kept", karpv1.TerminationFinalizer}},
		"a NodeClaim that has it":           {&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "one", Finalizers: []string{karpv1.TerminationFinalizer}}}, []string{karpv1.TerminationFinalizer}},
		"a Pod, which nothing would finish": {&corev1.Pod{ObjectMeta: name}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			api := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
			if err := batcher.FinalizedClient(api).Create(t.Context(), tt.object); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(tt.object), tt.object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, tt.object.GetFinalizers()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
}
