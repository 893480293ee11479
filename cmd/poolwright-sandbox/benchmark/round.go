package benchmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operation is what is measured of a system.
type Operation string

// The operations.
const (
	// FirstApply is from the request to follow a repository until all its objects are reported as applied.
	FirstApply Operation = "FirstApply"
	// NoChange is a requested run that finds no difference.
	NoChange Operation = "NoChange"
	// OneChange is a requested run that finds a commit with one changed object.
	OneChange Operation = "OneChange"
	// LiveEdit is from the edit of an object in the cluster until it is as declared again. A system that
	// does not watch objects is required to run at that moment.
	LiveEdit Operation = "LiveEdit"
)

// Operations are all of them in the order in which they are measured.
func Operations() []Operation { return []Operation{FirstApply, NoChange, OneChange, LiveEdit} }

// repeats is how often a round measures each operation but the first apply.
const repeats = 3

// Round is what one system took in one round, by operation.
type Round map[Operation][]Usage

// Round starts a system, has it apply so many objects and measures each operation. The system is
// stopped at the end.
func (e *Environment) Round(ctx context.Context, s System, objects int) (round Round, err error) {
	if err := s.Processes.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Processes.Stop()) }()
	r, commit, err := e.NewRepository(ctx, objects)
	if err != nil {
		return nil, err
	}
	round = Round{}
	// Of what is repeated, private memory is sampled once: the median of processor times is that of the others.
	sampled := true
	measure := func(name Operation, do func(context.Context) error) error {
		used, err := Measure(ctx, s.Processes, sampled, do)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", s.Name, name, err)
		}
		round[name] = append(round[name], used)
		return nil
	}
	if err := measure(FirstApply, func(ctx context.Context) error { return s.Reconciler.Follow(ctx, r, commit) }); err != nil {
		return nil, err
	}
	for n := range repeats {
		sampled = n == 0
		pause(ctx)
		if err := measure(NoChange, func(ctx context.Context) error { return s.Reconciler.Request(ctx, r, commit) }); err != nil {
			return nil, err
		}
		if commit, err = r.Change(ctx, fmt.Sprintf("changed%d", n)); err != nil {
			return nil, err
		}
		pause(ctx)
		if err := measure(OneChange, func(ctx context.Context) error { return s.Reconciler.Request(ctx, r, commit) }); err != nil {
			return nil, err
		}
		pause(ctx)
		if err := measure(LiveEdit, func(ctx context.Context) error { return e.edit(ctx, s, r, fmt.Sprintf("changed%d", n)) }); err != nil {
			return nil, err
		}
	}
	return round, s.Reconciler.Release(ctx, r)
}

// pause lets what was started beside an operation end.
func pause(ctx context.Context) { pauseFor(ctx, time.Second) }

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// edit edits the first ConfigMap and waits until it has a value again.
func (e *Environment) edit(ctx context.Context, s System, r *Repository, value string) error {
	edited := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "o00000"}}
	if err := e.Admin.Patch(ctx, edited, client.RawPatch(types.MergePatchType, []byte(`{"data":{"b":"edited"}}`))); err != nil {
		return fmt.Errorf("editing a ConfigMap: %w", err)
	}
	if err := s.Reconciler.Correct(ctx, r); err != nil {
		return err
	}
	return awaitObject(ctx, e, edited, &corev1.ConfigMapList{}, func(now *corev1.ConfigMap) error {
		if now.Data["b"] != value {
			return fmt.Errorf("its value is %q", now.Data["b"])
		}
		return nil
	})
}
