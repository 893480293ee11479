package engine

import (
	"context"
	"errors"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func fakeBuilder(objects ...client.Object) client.NewClientFunc {
	return func(*rest.Config, client.Options) (client.Client, error) {
		return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
			WithStatusSubresource(&awsv1.EC2NodeClass{}).Build(), nil
	}
}

func TestInvalidQuantitiesInEveryResponseOfTheAPIServerAreReplaced(t *testing.T) {
	stored := classWith("al2023@a@b")
	stored.Name = "gpu"
	c, err := newClientFunc(fakeBuilder(stored))(nil, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *awsv1.EC2NodeClass {
		class := &awsv1.EC2NodeClass{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "gpu"}, class); err != nil {
			t.Fatal(err)
		}
		return class
	}
	for _, test := range []struct {
		name string
		do   func(*awsv1.EC2NodeClass) error
	}{
		{"a read", func(*awsv1.EC2NodeClass) error { return nil }},
		{"a patch", func(o *awsv1.EC2NodeClass) error {
			before := o.DeepCopy()
			o.Finalizers = append(o.Finalizers, "x/y")
			return c.Patch(t.Context(), o, client.MergeFrom(before))
		}},
		{"a status patch", func(o *awsv1.EC2NodeClass) error {
			before := o.DeepCopy()
			o.Status.InstanceProfile = "p"
			return c.Status().Patch(t.Context(), o, client.MergeFrom(before))
		}},
		{"a status update", func(o *awsv1.EC2NodeClass) error { return c.Status().Update(t.Context(), o) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			class := read()
			if err := test.do(class); err != nil {
				t.Fatal(err)
			}
			if got := class.Spec.AMISelectorTerms[0]; got.Alias != "" || got.ID != noImage {
				t.Errorf("the term is %+v", got)
			}
		})
	}
}

func TestAGuardedClientReadsButDoesNotWriteWhileRefused(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	inner, err := fakeBuilder(node)(nil, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stale := errors.New("stale")
	var refusal error
	c := guardedClient{inner, func(context.Context) error { return refusal }}
	write := map[string]func() error{
		"delete": func() error { return c.Delete(t.Context(), node.DeepCopy()) },
		"patch": func() error {
			return c.Patch(t.Context(), node.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")))
		},
		"status patch": func() error {
			return c.Status().Patch(t.Context(), node.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")))
		},
	}
	refusal = stale
	for name, do := range write {
		if err := do(); !errors.Is(err, stale) {
			t.Errorf("%s while refused: %v", name, err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{}); err != nil {
		t.Errorf("reading while refused: %v", err)
	}
	refusal = nil
	for _, name := range []string{"status patch", "patch", "delete"} {
		if err := write[name](); err != nil {
			t.Errorf("%s while allowed: %v", name, err)
		}
	}
}
