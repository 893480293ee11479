package collector

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// many are NodeClaims with UIDs of their own.
func many(n int, change ...func(*karpv1.NodeClaim)) []client.Object {
	var out []client.Object
	for i := range n {
		c := claimOf(fmt.Sprint("n", i), change...)
		c.UID = types.UID(fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)})))
		out = append(out, c)
	}
	return out
}

func TestPricesAreReadOnceForAllNodesAndOnlyWhereOneHasNone(t *testing.T) {
	dated := &pricelist.List{OnDemandAt: noon, SpotAt: noon, OnDemand: map[string]float64{"g4dn.12xlarge": 5}, Spot: map[string]map[string]float64{"us-east-1a": {"g4dn.12xlarge": 2}}}
	spot := func(c *karpv1.NodeClaim) { c.Labels[karpv1.CapacityTypeLabelKey] = "spot" }
	for name, test := range map[string]struct {
		claims []client.Object
		lists  []*pricelist.List
		reads  int
		want   history.PriceBasis
	}{
		"prices that AWS has":          {many(50), []*pricelist.List{dated}, 1, history.PriceList},
		"spot prices that come later":  {many(50, spot), []*pricelist.List{nil, nil, dated}, 3, history.PriceSpotHistory},
		"spot prices that never come":  {many(50, spot), []*pricelist.List{{}}, 10, history.PriceSpotAtMost},
		"prices before they were read": {many(50), []*pricelist.List{nil}, 1, history.PriceCatalog},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			c, clock := collecting(t, clientOf(append(test.claims, poolOf("gpu"))...), func(cfg *Config) {
				cfg.Offerings = func() *pricelist.List {
					reads++
					return test.lists[min(reads, len(test.lists))-1]
				}
			})
			for range int(10 * time.Minute / sampleInterval) {
				c.step(t.Context(), nil)
				clock.Step(sampleInterval)
			}
			if reads != test.reads {
				t.Errorf("the prices are read %d times", reads)
			}
			for _, n := range read(t, c).NodeClaims {
				if n.PriceBasis != test.want {
					t.Fatalf("the price is of %s", n.PriceBasis)
				}
			}
		})
	}
}

func TestARecordThatSomebodyDeletesIsWrittenAgain(t *testing.T) {
	kube := clientOf(append(many(5), poolOf("gpu"))...)
	c, clock := collecting(t, kube)
	observe := func(d time.Duration) {
		for end := clock.Now().Add(d); clock.Now().Before(end); clock.Step(sampleInterval) {
			c.step(t.Context(), nil)
		}
	}
	observe(5 * time.Minute)
	for range 2 {
		if err := kube.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("poolwright-system"), client.MatchingLabels{"app.kubernetes.io/component": "history"}); err != nil {
			t.Fatal(err)
		}
		observe(5 * time.Minute)
		h, err := (&store.Store{Kube: kube, Namespace: "poolwright-system"}).Read(t.Context())
		if err != nil || len(h.NodeClaims) != 5 || clock.Now().Sub(h.Time.Time) > sumDelay+time.Minute {
			t.Errorf("%d nodes are recorded until %s, %v", len(h.NodeClaims), h.Time, err)
		}
	}
	// Each second of the five nodes is added once.
	if got, want := testutil.ToFloat64(c.series.seconds.WithLabelValues("gpu", "paid")), 5*4*(30*60+15*60-sampleInterval.Seconds()); got < want-1 || got > want+1 {
		t.Errorf("%f seconds are added, want %f", got, want)
	}
}

func TestAConflictCountsNothingTwice(t *testing.T) {
	kube := clientOf(claimOf("a"), poolOf("gpu"))
	c, clock := collecting(t, kube)
	c.step(t.Context(), nil)
	for range 3 {
		if err := c.save(t.Context()); err != nil {
			t.Fatal(err)
		}
		var touched corev1.ConfigMap
		if err := kube.Get(t.Context(), client.ObjectKey{Namespace: "poolwright-system", Name: store.Names()[0]}, &touched); err != nil {
			t.Fatal(err)
		}
		touched.Annotations = map[string]string{"at": clock.Now().String()}
		if err := kube.Update(t.Context(), &touched); err != nil {
			t.Fatal(err)
		}
		clock.Step(20 * time.Second)
		c.step(t.Context(), nil)
	}
	got := read(t, c)
	if seconds := testutil.ToFloat64(c.series.seconds.WithLabelValues("gpu", "paid")); seconds != 4*1860 || got.NodeClaims[0].GPUSeconds.Paid != seconds {
		t.Errorf("%f seconds are added, and %f recorded", seconds, got.NodeClaims[0].GPUSeconds.Paid)
	}
}

func TestNodesThatAreGoneAreFoundWithOneRequestAndTheRestIsWritten(t *testing.T) {
	lists, failure := 0, error(nil)
	kube := clientOf(poolOf("gpu"))
	c, clock := collecting(t, clientOf(append(many(20), poolOf("gpu"))...), func(cfg *Config) {
		cfg.Live = interceptor.NewClient(kube, interceptor.Funcs{List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if lists++; failure != nil {
				return failure
			}
			return kube.List(ctx, list, opts...)
		}})
	})
	c.step(t.Context(), nil)
	c.cfg.Cached, failure = kube, errors.New("refused")
	for range 2 {
		clock.Step(sampleInterval)
		c.step(t.Context(), nil)
	}
	if lists != 1 || !c.saved.Equal(clock.Now().Add(-sampleInterval)) {
		t.Errorf("%d lists fail, and the last write is of %s", lists, c.saved)
	}
	failure = nil
	clock.Step(sampleInterval)
	c.step(t.Context(), nil)
	if lists != 2 || len(c.state.Open()) != 0 {
		t.Errorf("after %d lists %d nodes run", lists, len(c.state.Open()))
	}
}

func TestPodsOfNodesThatNeedNoneAreNotRead(t *testing.T) {
	pods := 0
	cpu := func(c *karpv1.NodeClaim) { c.Labels[corev1.LabelInstanceTypeStable] = "m5.large" }
	objects := []client.Object{claimOf("a", cpu), poolOf("gpu"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-a"}}, podOf("a", "ip-a", 0), podOf("b", "ip-a", 0)}
	kube := clientOf(objects...)
	c, clock := collecting(t, interceptor.NewClient(kube, interceptor.Funcs{List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*corev1.PodList); is {
			pods++
		}
		return kube.List(ctx, list, opts...)
	}}))
	c.step(t.Context(), nil)
	if err := kube.Create(t.Context(), podOf("c", "ip-a", 0)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c.step(t.Context(), nil)
	}
	if pods != 2 || len(read(t, c).NodeClaims[0].Pods) != 3 {
		t.Errorf("pods are read %d times", pods)
	}
	c, _ = collecting(t, c.cfg.Cached.(client.WithWatch))
	c.cfg.Clock, pods = clock, 0
	clock.Step(podsUntil)
	c.state = recorder.NewState(nil)
	c.step(t.Context(), nil)
	if pods != 0 {
		t.Errorf("the pods of an old node are read %d times", pods)
	}
}

func TestAFailureOfTheProgramEndsTheRecordsAndNothingElse(t *testing.T) {
	claim := claimOf("a", deletedNow)
	c, _ := collecting(t, clientOf(claim, poolOf("gpu")))
	c.queue(func(*recorder.State) {
		var nothing *karpv1.NodeClaim
		nothing.Name = "a"
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	terminated := false
	if err := c.Decorate(&provider{before: func() { terminated = true }}).Delete(t.Context(), claim); err != nil || !terminated {
		t.Errorf("the node is terminated: %t, %v", terminated, err)
	}
	c.RunObserver("dev")()(reconciler.Result{Revision: "main@sha1:a", Outcome: apply.Outcome{Results: []apply.Result{{Change: change("ConfigMap", "a", plan.Create, false, nil, map[string]any{}), Status: apply.Applied}}}})
	c.deleted(claim)
	if len(c.queued) != 0 {
		t.Errorf("%d records are queued", len(c.queued))
	}
	c.off.Store(false)
	c.leads.Store(true)
	c.deleted(nil)
	if !c.off.Load() {
		t.Error("a failure in an event is not contained")
	}
}

func TestAHistoryThatCannotBeReadKeepsLittle(t *testing.T) {
	kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("refused")
		},
	})
	c, _ := collecting(t, clientOf(), func(cfg *Config) { cfg.Live = kube })
	for range 2 * maxQueued {
		c.queue(func(*recorder.State) {})
	}
	c.step(t.Context(), nil)
	if n := len(c.queued); n > maxUnread {
		t.Errorf("%d records are kept", n)
	}
}

func TestAnApplyIsRecordedWithoutAnEngine(t *testing.T) {
	c, _ := collecting(t, clientOf(), func(cfg *Config) { cfg.Nodes = false })
	c.queue(func(s *recorder.State) { s.RecordApply(history.Apply{Sync: "dev", Created: 1}) })
	c.step(t.Context(), nil)
	if h := read(t, c); h.Time.IsZero() || len(h.Applies) != 1 {
		t.Errorf("until %s there are %d applies", h.Time, len(h.Applies))
	}
}

func TestALargeStateIsWrittenLessOften(t *testing.T) {
	writes, failure := 0, error(nil)
	c, clock := collecting(t, clientOf(append(many(6000), poolOf("gpu"))...), func(cfg *Config) { cfg.Live = counted(clientOf(), &writes, &failure) })
	c.step(t.Context(), nil)
	if err := c.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.writer.Bytes() < slowBytes {
		t.Fatalf("the State has only %d bytes", c.writer.Bytes())
	}
	c.queue(func(s *recorder.State) { s.RecordApply(history.Apply{Sync: "dev", Created: 1}) })
	clock.Step(changeDelay)
	c.step(t.Context(), nil)
	if writes != 1 {
		t.Errorf("%d writes within %s", writes, changeDelay)
	}
	clock.Step(c.changeDelay())
	c.step(t.Context(), nil)
	if writes != 2 {
		t.Errorf("%d writes after %s", writes, c.changeDelay())
	}
}
