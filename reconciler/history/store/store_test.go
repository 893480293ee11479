package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

const namespace = "poolwright-system"

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// random is a text that does not compress.
func random(i int) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(i)))) }

// terminated is a node that ran for twenty minutes of its own hour.
func terminated(i int) recorder.Observation {
	at := start.Add(time.Duration(i) * time.Hour)
	return recorder.Observation{NodeClaim: history.NodeClaim{
		Name: "gpu-" + random(i)[:5], UID: random(i), NodePool: "gpu", GPUs: 1, Pods: []string{random(-i), random(i + 1_000_000), random(i + 2_000_000)},
		Lifecycle: history.Lifecycle{Created: metav1.NewTime(at), Launched: metav1.NewTime(at), Deleted: metav1.NewTime(at.Add(20 * time.Minute)), Terminated: metav1.NewTime(at.Add(20 * time.Minute))}, Reason: history.ReasonEmpty, Message: random(i+3_000_000) + random(i+4_000_000),
	}}
}

func none(string) bool { return false }

// fill records nodes from one number to another, and saves the State after each hundred.
func fill(t *testing.T, s *Store, from, to int) {
	t.Helper()
	state, err := s.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		o := terminated(i)
		state.Observe(o.Terminated.Time, []recorder.Observation{o})
		if i%100 == 99 {
			if err := s.Save(t.Context(), state, none); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAHistoryFillsEightConfigMapsAndThenLosesTheOldest(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	s := &Store{Kube: kube, Namespace: namespace}
	names := func() (out []string) {
		var all corev1.ConfigMapList
		if err := kube.List(t.Context(), &all, client.MatchingLabels{"app.kubernetes.io/component": "history"}); err != nil {
			t.Fatal(err)
		}
		for _, c := range all.Items {
			out = append(out, c.Name)
			if size := len(c.BinaryData[dataKey]); size > 512<<10 {
				t.Errorf("%s has %d bytes", c.Name, size)
			}
		}
		return out
	}
	const first = 1500
	fill(t, s, 0, first)
	h, err := s.Read(t.Context())
	if err != nil || len(h.NodeClaims) != first || len(h.PoolHours) != first {
		t.Fatalf("%d nodes in %d hours are recorded, %v", len(h.NodeClaims), len(h.PoolHours), err)
	}
	for i, n := range h.NodeClaims {
		if n.UID != random(i) {
			t.Fatalf("node %d is %s", i, n.Name)
		}
	}
	const all = 9000
	fill(t, s, first, all)
	h, err = s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := names()
	for _, name := range found {
		if !slices.Contains(Names(), name) {
			t.Errorf("%s is none of its ConfigMaps", name)
		}
	}
	oldest := h.NodeClaims[0].UID
	if len(h.NodeClaims) < 4000 || h.NodeClaims[len(h.NodeClaims)-1].UID != random(all-1) || oldest == random(0) || len(found) > 8 {
		t.Errorf("%d nodes are recorded in %d ConfigMaps", len(h.NodeClaims), len(found))
	}
	t.Logf("%d nodes and %d hours in %s", len(h.NodeClaims), len(h.PoolHours), strings.Join(found, " "))
}

func TestNothingIsReadWhereNothingWasWritten(t *testing.T) {
	requests := 0
	kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			requests++
			return kube.Get(ctx, key, into, opts...)
		},
	})
	h, err := (&Store{Kube: kube, Namespace: namespace}).Read(t.Context())
	if err != nil || !h.Time.IsZero() || requests != 1 {
		t.Errorf("%+v is read with %d requests, %v", h, requests, err)
	}
}

func TestAStateThatAnotherWroteIsNotOverwritten(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	one, other := &Store{Kube: kube, Namespace: namespace}, &Store{Kube: kube, Namespace: namespace}
	for round := range 2 {
		a, errA := one.Load(t.Context(), nil)
		b, errB := other.Load(t.Context(), nil)
		if err := errors.Join(errA, errB, one.Save(t.Context(), a, none)); err != nil {
			t.Fatal(err)
		}
		if err := other.Save(t.Context(), b, none); !IsConflict(err) {
			t.Errorf("round %d: the other writes as well: %v", round, err)
		}
	}
}

// A quota may allow the State, and not the next archive.
func TestTheStateIsWrittenWhereNoArchiveCanBe(t *testing.T) {
	allowed := 1
	kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, kube client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if allowed == 0 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, object.GetName(), errors.New("exceeded quota"))
			}
			allowed--
			return kube.Create(ctx, object, opts...)
		},
	})
	s := &Store{Kube: kube, Namespace: namespace}
	state, err := s.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	record := func(from, to int) error {
		for i := from; i < to; i++ {
			o := terminated(i)
			state.Observe(o.Terminated.Time, []recorder.Observation{o})
		}
		return s.Save(t.Context(), state, none)
	}
	if err := record(0, 100); err != nil {
		t.Fatal(err)
	}
	if err := record(100, 500); !IsRefused(err) || IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if state.Changed() {
		t.Error("the State is not written")
	}
	if h, err := s.Read(t.Context()); err != nil || len(h.NodeClaims) != 500 || len(h.PoolHours) != 500 {
		t.Errorf("%d nodes in %d hours are recorded, %v", len(h.NodeClaims), len(h.PoolHours), err)
	}
	allowed = 2
	if err := record(500, 501); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Read(t.Context()); err != nil || len(h.NodeClaims) != 501 || len(h.PoolHours) != 501 {
		t.Errorf("with archives %d nodes in %d hours are recorded, %v", len(h.NodeClaims), len(h.PoolHours), err)
	}
}

func TestAFailureNamesTheConfigMapAndKeepsTheState(t *testing.T) {
	failure := errors.New("etcd is full")
	failing := ""
	kube := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if failing == "get "+key.Name {
				return failure
			}
			return kube.Get(ctx, key, into, opts...)
		},
		Create: func(ctx context.Context, kube client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if failing == "create "+object.GetName() {
				return failure
			}
			return kube.Create(ctx, object, opts...)
		},
	})
	s := &Store{Kube: kube, Namespace: namespace}
	state, err := s.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fails := func() {
		t.Helper()
		err := s.Save(t.Context(), state, none)
		if _, name, _ := strings.Cut(failing, " "); !errors.Is(err, failure) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", failing, err)
		}
	}
	failing = "create poolwright-history"
	fails()
	for i := range 500 {
		o := terminated(i)
		state.Observe(o.Terminated.Time, []recorder.Observation{o})
	}
	for _, failing = range []string{"create poolwright-history-records-0", "get poolwright-history-records-3", "create poolwright-history-hours-0"} {
		fails()
	}
	failing = ""
	if err := s.Save(t.Context(), state, none); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Read(t.Context()); err != nil || len(h.NodeClaims) != 500 || len(h.PoolHours) != 500 {
		t.Errorf("%d nodes in %d hours are recorded, %v", len(h.NodeClaims), len(h.PoolHours), err)
	}
	for _, failing = range []string{"get poolwright-history", "get poolwright-history-hours-1"} {
		if _, err := s.Read(t.Context()); !errors.Is(err, failure) {
			t.Errorf("%s: %v", failing, err)
		}
	}
	failing = ""
	broken := &corev1.ConfigMap{}
	if err := s.get(t.Context(), "poolwright-history", broken); err != nil {
		t.Fatal(err)
	}
	broken.BinaryData[dataKey] = []byte("no history")
	if err := kube.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "poolwright-history") {
		t.Errorf("what is no history is loaded: %v", err)
	}
}
