package integration

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/pricelist"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// refused has EC2 refuse the cheaper of two instance types.
func (w *fixture) refused(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			w.got.show(t)
		}
	})
	const cheaper, other = "c5.xlarge", "m5.xlarge"
	of := sandboxaws.Offering{Type: cheaper}
	if err := w.AWS.SetCapacity(of, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.AWS.SetCapacity(of, -1); err != nil {
			t.Error(err)
		}
	})
	class, pool, pod := w.pool()
	class.Name, pool.Name, pod.Name = "refused", "refused", "refused"
	pool.Spec.Template.Spec.NodeClassRef.Name, pod.Spec.NodeSelector[karpv1.NodePoolLabelKey] = class.Name, pool.Name
	pool.Spec.Template.Spec.Requirements = nil
	for key, values := range map[string][]string{corev1.LabelInstanceTypeStable: {cheaper, other}, karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeOnDemand}} {
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: values,
		})
	}
	w.create(t, class)
	w.create(t, pool)
	w.create(t, pod)
	w.eventually(t, "a node of the other type", func() bool {
		claims := w.claims(t, pool.Name)
		return len(claims) == 1 && claims[0].Labels[corev1.LabelInstanceTypeStable] == other
	})
	all := w.engine.Offerings().Refused
	if !slices.ContainsFunc(all, func(r pricelist.Refusal) bool {
		return r.InstanceType == cheaper && r.CapacityType == karpv1.CapacityTypeOnDemand && r.Code == "InsufficientInstanceCapacity" && !r.At.IsZero()
	}) || slices.ContainsFunc(all, func(r pricelist.Refusal) bool { return r.InstanceType == other }) {
		t.Errorf("EC2 refused %+v", all)
	}
	if err := w.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the node to go", func() bool { return len(w.claims(t, pool.Name)) == 0 })
}
