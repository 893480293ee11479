package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

// limited refuses ConfigMaps of more than 1 MiB, as the API server does.
func limited() client.Client {
	refused := func(o client.Object) error {
		if c, is := o.(*corev1.ConfigMap); is && len(c.BinaryData[dataKey]) > 1<<20 {
			return fmt.Errorf("%s has %d bytes", c.Name, len(c.BinaryData[dataKey]))
		}
		return nil
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, kube client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if err := refused(object); err != nil {
				return err
			}
			return kube.Create(ctx, object, opts...)
		},
		Update: func(ctx context.Context, kube client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			if err := refused(object); err != nil {
				return err
			}
			return kube.Update(ctx, object, opts...)
		},
	})
}

// running is a node that runs since the start, whose name and pods do not compress.
func running(i int) recorder.Observation {
	price, launched := 0.5+float64(i)/7e5, metav1.NewTime(start.Add(time.Duration(i%600)*time.Second))
	return recorder.Observation{Advertises: true, Requested: float64(i%10) / 10, NodeClaim: history.NodeClaim{
		Name: "gpu-" + random(i + 1_000_000)[:5], UID: random(i)[:32], Node: fmt.Sprintf("ip-10-%d-%d-%d.eu-west-1.compute.internal", i%7, i/256%256, i%256), NodePool: fmt.Sprint("gpu-", i%10),
		InstanceType: "g5.xlarge", CapacityType: "spot", Zone: "eu-west-1a", GPUs: 1, Pods: []string{"ml/train-" + random(i + 2_000_000)[:10], "ml/train-" + random(i + 3_000_000)[:10], "ml/serve-" + random(i + 4_000_000)[:10]},
		Lifecycle: history.Lifecycle{Created: launched, Launched: launched, Registered: launched, Initialized: launched}, USDPerHour: &price, PriceBasis: history.PriceSpotHistory,
	}}
}

func TestAnyNumberOfNodesThatRunIsWritten(t *testing.T) {
	for n, complete := range map[int]bool{5_000: true, 15_000: false} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			s := &Store{Kube: limited(), Namespace: namespace}
			state, err := s.Load(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var all []recorder.Observation
			for i := range n {
				all = append(all, running(i))
			}
			for i := range 5 {
				state.Observe(start.Add(11*time.Minute+time.Duration(i)*5*time.Second), all)
			}
			if err := s.Save(t.Context(), state, none); err != nil {
				t.Fatal(err)
			}
			h, err := s.Read(t.Context())
			if err != nil || complete == (h.Omitted > 0) || len(h.NodeClaims) < 4_000 || len(h.NodeClaims)+h.Omitted != n {
				t.Errorf("%d nodes are recorded, and %d are omitted, %v", len(h.NodeClaims), h.Omitted, err)
			}
			t.Logf("the State has %d bytes", s.Bytes())
			// The next leader accounts each of them once.
			next, err := (&Store{Kube: s.Kube, Namespace: namespace}).Load(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			next.Observe(start.Add(12*time.Minute), all)
			if err := s.Save(t.Context(), next, none); err != nil {
				t.Fatal(err)
			}
			if h, err = s.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			seconds, want := 0.0, 0.0
			for _, hour := range h.PoolHours {
				seconds += hour.NodeSeconds
			}
			for _, o := range all {
				want += start.Add(12 * time.Minute).Sub(o.Launched.Time).Seconds()
			}
			if diff := seconds - want; diff > 1 || diff < -1 {
				t.Errorf("%f seconds are accounted for, want %f", seconds, want)
			}
			// All of them terminate at once.
			for i := range all {
				all[i].Deleted, all[i].Terminated, all[i].Reason = metav1.NewTime(start.Add(13*time.Minute)), metav1.NewTime(start.Add(13*time.Minute)), history.ReasonEmpty
			}
			next.Observe(start.Add(13*time.Minute), all)
			if err := s.Save(t.Context(), next, none); err != nil {
				t.Fatal(err)
			}
			next.Observe(start.Add(30*time.Minute), nil)
			if err := s.Save(t.Context(), next, none); err != nil {
				t.Fatal(err)
			}
			if h, err = s.Read(t.Context()); err != nil || len(h.NodeClaims) < min(n, 5_000) || h.Omitted != 0 {
				t.Errorf("%d nodes are recorded in the end, %v", len(h.NodeClaims), err)
			}
		})
	}
}

func TestHoursThatPileUpAreArchivedInParts(t *testing.T) {
	s := &Store{Kube: limited(), Namespace: namespace}
	state, err := s.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody led for weeks.
	var all []recorder.Observation
	for i := range 300 {
		o := running(i)
		o.NodePool = random(i)
		all = append(all, o)
	}
	state.Observe(start.Add(11*time.Minute), all)
	state.Observe(start.Add(30*24*time.Hour), all)
	if err := s.Save(t.Context(), state, none); err != nil {
		t.Fatal(err)
	}
	h, err := s.Read(t.Context())
	if err != nil || len(h.PoolHours) < 5_000 || len(h.NodeClaims) != 300 {
		t.Errorf("%d hours are recorded of %d nodes, %v", len(h.PoolHours), len(h.NodeClaims), err)
	}
}

func TestConfigMapsThatAreDeletedAreWrittenAgain(t *testing.T) {
	for _, deleted := range [][]string{{stateName}, Names()} {
		s := &Store{Kube: limited(), Namespace: namespace}
		fill(t, s, 0, 1000)
		for _, name := range deleted {
			if err := s.Kube.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		state, err := recorder.Decode(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		state.Observe(start, []recorder.Observation{running(1)})
		if err := s.Save(t.Context(), state, none); err != nil {
			t.Fatal(err)
		}
		h, err := s.Read(t.Context())
		if err != nil || !slices.ContainsFunc(h.NodeClaims, func(n history.NodeClaim) bool { return n.UID == running(1).UID }) {
			t.Errorf("%d nodes are recorded, %v", len(h.NodeClaims), err)
		}
	}
}

func TestASequenceThatNobodyWroteIsNone(t *testing.T) {
	for annotation, want := range map[string]int{"": 0, "7": 7, "-3": 0, "9223372036854775807": 0, "x": 0} {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{sequenceAnnotation: annotation}}}
		if d := cmp.Diff(want, sequence(c)); d != "" {
			t.Errorf("the sequence of %q (-want +got):\n%s", annotation, d)
		}
	}
}

func TestANamespaceThatIsGoneIsAFailure(t *testing.T) {
	failure := errors.New("refused")
	kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return failure },
	})
	s := &Store{Kube: kube, Namespace: namespace}
	state, err := s.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), state, none); !errors.Is(err, failure) {
		t.Errorf("it is written: %v", err)
	}
}
