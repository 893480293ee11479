// Package reducetest fills objects with what package reduce drops, for tests that it makes
// no difference.
//
// Start reading at AddUnread.
package reducetest

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// Fill gives every field below the pointer a value other than its zero, and every list and map
// one entry.
func Fill(tb testing.TB, into any) {
	tb.Helper()
	fill(tb, reflect.ValueOf(into).Elem())
}

func fill(tb testing.TB, v reflect.Value) {
	tb.Helper()
	switch known := v.Addr().Interface().(type) {
	case *metav1.Time:
		*known = metav1.NewTime(time.Unix(1.7e9, 0))
		return
	case *resource.Quantity:
		*known = resource.MustParse("7")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(tb, field)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(tb, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(tb, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(tb, key)
		fill(tb, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("filled")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	default:
		tb.Fatalf("Fill has no value for a field of the kind %s", v.Kind())
	}
}

// AddUnread fills those fields of a pod that a reduced one lacks.
func AddUnread(tb testing.TB, pod *corev1.Pod) {
	tb.Helper()
	var full corev1.Pod
	Fill(tb, &full)
	id, shape := reduce.Split(&full)
	add(reflect.ValueOf(pod).Elem(), reflect.ValueOf(&full).Elem(), reflect.ValueOf(id.Of(shape)).Elem())
}

// AddUnreadToNode does the same for a Node.
func AddUnreadToNode(tb testing.TB, node *corev1.Node) {
	tb.Helper()
	var full corev1.Node
	Fill(tb, &full)
	add(reflect.ValueOf(node).Elem(), reflect.ValueOf(&full).Elem(), reflect.ValueOf(reduce.Node(&full)).Elem())
}

// add fills what is empty in the object and in the reduced one, also within lists that both
// have entries of.
func add(to, full, reduced reflect.Value) {
	switch {
	case reduced.IsZero():
		if to.IsZero() {
			to.Set(full)
		}
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			if to.Field(i).CanSet() {
				add(to.Field(i), full.Field(i), reduced.Field(i))
			}
		}
	case to.Kind() == reflect.Slice:
		for i := range to.Len() {
			add(to.Index(i), full.Index(0), reduced.Index(0))
		}
	}
}
