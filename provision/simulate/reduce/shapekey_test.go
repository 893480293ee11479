package reduce_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/simulate/reduce"
	"github.com/poolwright/poolwright/provision/simulate/reduce/reducetest"
)

func TestPodsShareOnlyWhatIsTheSame(t *testing.T) {
	var pods reduce.Pods
	shaped := func(name string) *corev1.Pod {
		var full corev1.Pod
		reducetest.Fill(t, &full)
		full.Name = name
		full.Annotations = map[string]string{corev1.PodDeletionCost: "1"}
		out, err := pods.Pod(&full)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := shaped("a"), shaped("b")
	if reduce.ShapeKeyOf(a) != reduce.ShapeKeyOf(b) {
		t.Error("two pods of one shape share nothing")
	}
	// What the shape has none of is of the pod itself.
	shape := *b
	shape.Name, shape.UID, shape.CreationTimestamp, shape.Spec.NodeName, shape.Status.StartTime = "", "", (corev1.Pod{}).CreationTimestamp, "", nil
	for name, of := range map[string]func(*corev1.Pod) reflect.Value{
		"metadata": func(p *corev1.Pod) reflect.Value { return reflect.ValueOf(&p.ObjectMeta).Elem() },
		"spec":     func(p *corev1.Pod) reflect.Value { return reflect.ValueOf(&p.Spec).Elem() },
		"status":   func(p *corev1.Pod) reflect.Value { return reflect.ValueOf(&p.Status).Elem() },
	} {
		for field, value := range of(&shape).Fields() {
			if value.IsZero() {
				continue
			}
			t.Run(name+" "+field.Name, func(t *testing.T) {
				other := *b
				of(&other).FieldByIndex(field.Index).SetZero()
				if reduce.ShapeKeyOf(a) == reduce.ShapeKeyOf(&other) {
					t.Error("a pod without it shares it")
				}
				if kind := value.Kind(); kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer {
					of(&other).FieldByIndex(field.Index).Set(reflect.ValueOf(of(shaped("c").DeepCopy()).FieldByIndex(field.Index).Interface()))
					if reduce.ShapeKeyOf(a) == reduce.ShapeKeyOf(&other) {
						t.Error("a pod with an equal one that is not the same shares it")
					}
				}
			})
		}
	}
}
