package operator

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// fails is an API server that serves every CRD at once, and whose lists of
// Clusters give the errors in turn, then succeed.
func fails(t *testing.T, errs ...error) (c client.Client, lists *int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	lists = new(int)
	c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(reconcilertest.Cluster(nil)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, object, opts...); err != nil {
				return err
			}
			if crd, ok := object.(*apiextensionsv1.CustomResourceDefinition); ok {
				crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
					Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
				}}
			}
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.ClusterList); ok {
				*lists++
				if n := *lists; n <= len(errs) && errs[n-1] != nil {
					return errs[n-1]
				}
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	return c, lists
}

func TestAStartWaitsForAnAPIServerThatGoesAwayAtItsEnd(t *testing.T) {
	c, lists := fails(t, apierrors.NewServiceUnavailable("away"))
	now, err := prepare(t.Context(), c, Config{Namespace: "ours", Logger: logr.Discard()})
	if err != nil || !now.EngineOn {
		t.Errorf("got on %t, %v", now.EngineOn, err)
	}
	if *lists != 2 {
		t.Errorf("the Cluster was read %d times, want once in each of two rounds", *lists)
	}
}

func TestAStartWithoutPermissionsNamesWhereTheyAreListed(t *testing.T) {
	c, _ := fails(t, apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "", errors.New("no")))
	if _, err := prepare(t.Context(), c, Config{Namespace: "ours", Logger: logr.Discard()}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
}

// TestTheEngineRunsWithTheKindsOfItsGates turns a gate on between any two requests of a
// start: the engine may come with it or without, but never without its kind.
func TestTheEngineRunsWithTheKindsOfItsGates(t *testing.T) {
	gates := map[bool]bool{}
	for at := 1; ; at++ {
		requests := 0
		plain, _ := fails(t)
		c := interceptor.NewClient(plain.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				requests++
				turnOn(t, c, requests == at)
				return c.Get(ctx, key, object, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				requests++
				turnOn(t, c, requests == at)
				return c.List(ctx, list, opts...)
			},
		})
		now, err := prepare(t.Context(), c, Config{Namespace: "ours", Logger: logr.Discard()})
		if err != nil || !now.EngineOn {
			t.Fatalf("got on %t, %v", now.EngineOn, err)
		}
		err = plain.Get(t.Context(), client.ObjectKey{Name: "capacitybuffers.autoscaling.x-k8s.io"}, &apiextensionsv1.CustomResourceDefinition{})
		gate := now.Settings.FeatureGates["CapacityBuffer"]
		if gates[gate] = true; gate != (err == nil) {
			t.Errorf("turned on before request %d: the gate is %t, and reading its kind gives %v", at, gate, err)
		}
		if requests < at {
			break
		}
	}
	if len(gates) != 2 {
		t.Errorf("the gate was never turned on in time, or always: %v", gates)
	}
}

// turnOn has the Cluster ask for capacity buffers.
func turnOn(t *testing.T, c client.Client, now bool) {
	t.Helper()
	if !now {
		return
	}
	object := reconcilertest.Cluster(nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	object.Spec.Engine.FeatureGates = map[string]bool{"CapacityBuffer": true}
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
