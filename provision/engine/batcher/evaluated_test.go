package batcher

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// overlaid is a cloud provider with an error for some NodePools.
type overlaid struct {
	cloudprovider.CloudProvider
	errors map[string]error
	reads  int
}

func (o *overlaid) GetInstanceTypes(_ context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	o.reads++
	return nil, o.errors[pool.Name]
}

// poolsOf is a cache of NodePools by name, ready where so given.
func poolsOf(ready map[string]bool) client.Reader {
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for name, is := range ready {
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		if is {
			for _, condition := range []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady, status.ConditionReady} {
				pool.Status.Conditions = append(pool.Status.Conditions, status.Condition{Type: condition, Status: metav1.ConditionTrue})
			}
		}
		builder = builder.WithObjects(pool)
	}
	return builder.Build()
}

func TestABatchWaitsForNodePoolsThatAreNotEvaluated(t *testing.T) {
	unevaluated := cloudprovider.NewUnevaluatedNodePoolError("gpu")
	for name, c := range map[string]struct {
		ready  map[string]bool
		errors map[string]error
		want   bool
	}{
		"no NodePool":               {nil, nil, true},
		"all are evaluated":         {map[string]bool{"cpu": true, "gpu": true}, nil, true},
		"one is not":                {map[string]bool{"cpu": true, "gpu": true}, map[string]error{"gpu": unevaluated}, false},
		"one is not, and not ready": {map[string]bool{"cpu": true, "gpu": false}, map[string]error{"gpu": unevaluated}, true},
		"one has another error":     {map[string]bool{"cpu": true, "gpu": true}, map[string]error{"gpu": errors.New("no subnets found")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEvaluatedPools(clocktesting.NewFakePassiveClock(time.Now()), poolsOf(c.ready), &overlaid{errors: c.errors})
			if got := e.All(t.Context()); got != c.want {
				t.Error(got)
			}
		})
	}
}

func TestANodePoolThatIsNeverEvaluatedIsWaitedForOnce(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	cloud := &overlaid{errors: map[string]error{"gpu": cloudprovider.NewUnevaluatedNodePoolError("gpu")}}
	e := NewEvaluatedPools(clk, poolsOf(map[string]bool{"gpu": true}), cloud)
	begin, checks := clk.Now(), 0
	for !e.All(t.Context()) {
		if checks++; checks > 2000 {
			t.Fatal("it is waited for without an end")
		}
		clk.SetTime(clk.Now().Add(syncInterval))
	}
	if waited := clk.Now().Sub(begin); waited < evaluationTimeout || waited > evaluationTimeout+evaluationInterval {
		t.Errorf("it was waited for %s", waited)
	}
	if most := int(evaluationTimeout/evaluationInterval) + 2; cloud.reads > most {
		t.Errorf("instance types were listed %d times", cloud.reads)
	}
	reads := cloud.reads
	clk.SetTime(clk.Now().Add(time.Hour))
	if !e.All(t.Context()) || cloud.reads != reads {
		t.Error("it is waited for again")
	}
}

func TestABatchIsScheduledAsSoonAsItsNodePoolIsEvaluated(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	cloud := &overlaid{errors: map[string]error{"gpu": cloudprovider.NewUnevaluatedNodePoolError("gpu")}}
	e := NewEvaluatedPools(clk, poolsOf(map[string]bool{"gpu": true}), cloud)
	b, inner := newBatcher(clk, new(completeness)), &karpenter{}
	p := newProvisioner(inner, b, e.All)
	b.Trigger("p")
	for range 3 {
		if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 0 {
			t.Fatalf("before: %d runs, %v", inner.runs, err)
		}
		clk.Step(evaluationInterval)
	}
	delete(cloud.errors, "gpu")
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 1 {
		t.Errorf("after: %d runs, %v", inner.runs, err)
	}
}
