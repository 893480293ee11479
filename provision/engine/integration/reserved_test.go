package integration

import (
	"fmt"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// reserved has three pods, each for a node of its own, and a reservation of two instances, as the
// simulation of package simulate has them.
func (w *fixture) reserved(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			w.got.show(t)
		}
	})
	id, err := w.AWS.AddReservation(sandboxaws.Reservation{Type: "m5.large", Zone: "us-east-1a", Total: 2, Targeted: true})
	if err != nil {
		t.Fatal(err)
	}
	class, pool, pod := w.pool()
	class.Name, pool.Name = "reserved", "reserved"
	class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: id}}
	pool.Spec.Template.Spec.NodeClassRef.Name = class.Name
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeReserved}},
	}
	w.create(t, class)
	w.create(t, pool)
	var pods []*corev1.Pod
	for i := range 3 {
		one := pod.DeepCopy()
		one.Name, one.Spec.NodeSelector[karpv1.NodePoolLabelKey] = fmt.Sprint("reserved-", i), pool.Name
		w.create(t, one)
		pods = append(pods, one)
	}
	running := func() int {
		n := 0
		for _, p := range pods {
			if w.client.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return n
	}
	w.eventually(t, "two pods to run", func() bool { return running() == 2 })
	claims := w.claims(t, pool.Name)
	if len(claims) != 2 || running() != 2 {
		t.Errorf("there are %d nodes, and %d pods run", len(claims), running())
	}
	for _, c := range claims {
		if c.Labels[cloudprovider.ReservationIDLabel] != id || c.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeReserved {
			t.Errorf("%s is %s in %q", c.Name, c.Labels[karpv1.CapacityTypeLabelKey], c.Labels[cloudprovider.ReservationIDLabel])
		}
	}
	for _, p := range pods {
		if err := w.client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the nodes to go", func() bool { return len(w.claims(t, pool.Name)) == 0 })
}
