package integration

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simulate is the kubelets: plugins run when they are bound, end when they are deleted,
// and nodes go on being ready.
func (w *fixture) simulate(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	serving, beat := map[types.UID]string{}, time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		pods, err := w.plugins(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			if err := w.simulatePod(ctx, &pods[i], serving); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
		if time.Since(beat) > 10*time.Second {
			beat = time.Now()
			if err := w.beat(ctx); err != nil {
				return err
			}
		}
	}
}

func (w *fixture) simulatePod(ctx context.Context, pod *corev1.Pod, serving map[types.UID]string) error {
	node := pod.Spec.NodeName
	switch {
	case node == "" || nodes()[node] == "": // the sandbox's own node has a kubelet
		return nil
	case !pod.DeletionTimestamp.IsZero():
		if serving[pod.UID] != "" {
			delete(serving, pod.UID)
			w.note("gone " + node)
		}
		return w.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case serving[pod.UID] != "":
		return nil
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if err := w.Status().Update(ctx, pod); err != nil {
		return err
	}
	serving[pod.UID] = node
	w.note("come " + node)
	return nil
}

func (w *fixture) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
}

func (w *fixture) beat(ctx context.Context) error {
	var all corev1.NodeList
	if err := w.List(ctx, &all, client.HasLabels{"karpenter.sh/nodepool"}); err != nil {
		return err
	}
	for i := range all.Items {
		all.Items[i].Status.Conditions = []corev1.NodeCondition{ready(time.Now())}
		if err := w.Status().Update(ctx, &all.Items[i]); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
