package pluginupdate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
)

// stoppedReason is the reason of the Warning on a DaemonSet.
const stoppedReason = "PluginUpdateStopped"

// soon is when to try again after a cache turned out to be behind.
const soon = time.Second

// execute carries the decision out, and returns when to try again.
func (r *Updater) execute(ctx context.Context, s *decision) (time.Duration, error) {
	var errs []error
	for _, m := range s.lower {
		errs = append(errs, r.annotate(ctx, m.node, func(node *corev1.Node) { lower(node, m) }))
	}
	for _, m := range s.done {
		err := r.annotate(ctx, m.node, func(node *corev1.Node) { gpu.DeletePluginUpdate(node.Annotations) })
		if err == nil {
			r.Log.Info("replaced the device plugin of a node", "Node", m.node.Name, "config", m.config.Name, "revision", m.pluginHash())
		}
		errs = append(errs, err)
	}
	for _, m := range s.late {
		errs = append(errs, r.stop(ctx, m))
	}
	for _, m := range s.idle {
		// Pods that tolerate everything can be there all the same.
		free, err := r.mayInterrupt(ctx, s, m)
		if free {
			err = r.replace(ctx, m)
		}
		errs = append(errs, err)
	}
	errs = append(errs, r.pick(ctx, s))
	if s.next != nil {
		err := r.replace(ctx, s.next)
		if err == nil {
			delete(r.pauses, s.next.pool)
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if onlyConflicts(err) {
		s.requeueAfter(soon)
		err = nil
	}
	return s.again, err
}

// onlyConflicts reports that all that went wrong is to have read an old state.
func onlyConflicts(err error) bool {
	if err == nil {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if !onlyConflicts(one) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err) || errors.Is(err, errBehind)
}

// lower records the lesser of what is believed of the node and what is coming.
func lower(node *corev1.Node, m *member) {
	recorded, _ := m.recordedCapacity()
	node.Annotations[gpu.AllocatableAnnotation] = recorded.Min(m.health.Expected).String()
}

// annotate patches a node's annotations if it is still as it was observed. A node that
// is gone needs nothing.
func (r *Updater) annotate(ctx context.Context, observed *corev1.Node, change func(*corev1.Node)) error {
	node := observed.DeepCopy()
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	change(node)
	err := r.Client.Patch(ctx, node, client.MergeFromWithOptions(observed, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		r.expectations[node.Name] = expectation{uid: node.UID, version: node.ResourceVersion}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotating Node %q: %w", observed.Name, err)
	}
	return nil
}

// stop reports once that a node's new plugin is out of time. That the update stands
// still follows from the node, not from this.
func (r *Updater) stop(ctx context.Context, m *member) error {
	record := m.record
	record.Stopped, record.Hash = true, m.pluginHash()
	if err := r.annotate(ctx, m.node, func(node *corev1.Node) { node.Annotations[gpu.PluginUpdateAnnotation] = record.String() }); err != nil {
		return err
	}
	r.Recorder.Eventf(m.set, corev1.EventTypeWarning, stoppedReason,
		"node %s of pool %s does not advertise its GPUs %s after its plugin was replaced (%s: %s): no other plugin is replaced until it does, or until another version or configuration is declared",
		m.node.Name, m.pool, m.timeout(), cmp.Or(m.health.Reason, readiness.Mismatch), m.reason())
	r.Log.Info("stopped replacing device plugins", "Node", m.node.Name, "config", m.config.Name, "revision", m.pluginHash(), "reason", m.health.Reason)
	return nil
}

// replace deletes a node's plugin pod, after reading once more, past the cache,
// everything that decided so.
func (r *Updater) replace(ctx context.Context, observed *member) error {
	m, err := r.recheck(ctx, observed)
	if m == nil || err != nil {
		return err
	}
	intent := gpu.PluginUpdate{Hash: m.pluginHash(), Pod: m.plugin.UID, Time: r.Clock.Now()}
	err = r.annotate(ctx, m.node, func(node *corev1.Node) {
		node.Annotations[gpu.PluginUpdateAnnotation] = intent.String()
		if !m.idle() {
			lower(node, m)
		}
	})
	if err != nil {
		return err
	}
	// The grace time is the pod's own, and only this very pod is meant.
	err = r.Client.Delete(ctx, m.plugin, client.Preconditions{UID: &m.plugin.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %q, the device plugin on node %q: %w", m.plugin.Name, m.node.Name, err)
	}
	r.Log.Info("replacing the device plugin of a node", "Node", m.node.Name, "config", m.config.Name, "pod", m.plugin.Name, "revision", m.pluginHash())
	return nil
}

// recheck is the member as the API server has it; nil if there is nothing to
// replace any more.
func (r *Updater) recheck(ctx context.Context, observed *member) (*member, error) {
	node, set, pod := &corev1.Node{}, &appsv1.DaemonSet{}, &corev1.Pod{}
	for _, read := range []struct {
		what string
		key  client.Object
		into client.Object
	}{{"Node", observed.node, node}, {"DaemonSet", observed.set, set}, {"pod", observed.plugin, pod}} {
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(read.key), read.into); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, errBehind
			}
			return nil, fmt.Errorf("reading %s %q: %w", read.what, read.key.GetName(), err)
		}
	}
	if pod.UID != observed.plugin.UID || !pod.DeletionTimestamp.IsZero() {
		return nil, errBehind
	}
	m := *observed
	m.node, m.set, m.plugin, m.record = node, set, pod, gpu.ReadPluginUpdate(node.Annotations)
	m.health = readiness.Check(readiness.View{Node: node, Config: m.config, Plugin: pod, PluginHash: m.pluginHash()})
	if m.pluginHash() != observed.pluginHash() || m.idle() != observed.idle() || !m.old() || !m.observed() || !m.idle() && !m.reachable() {
		return nil, errBehind
	}
	return &m, nil
}
