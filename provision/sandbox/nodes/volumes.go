package nodes

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
)

// unreachableError is an API server that did not respond: a mounted file is there all
// the same, so the plugin does not fail for it.
type unreachableError struct{ error }

// Unwrap returns the client's error.
func (e unreachableError) Unwrap() error { return e.error }

// mounted reports whether a plugin's pod has its volumes.
func (k *kubelet) mounted(pod *corev1.Pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	record := k.pods[pod.UID]
	return record != nil && record.mounted != nil
}

// mountPlugins mounts the volumes of plugins' pods that wait for them, and lets those
// start that have all. It returns how long nothing more is due.
func (k *kubelet) mountPlugins() time.Duration {
	k.mu.Lock()
	pending := slices.DeleteFunc(k.boundPods(), func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil || !deviceplugin.Runs(p) || k.pods[p.UID].mounted != nil
	})
	k.mu.Unlock()
	wait := resync
	for _, pod := range pending {
		found := map[string]*corev1.ConfigMap{}
		missing, err := deviceplugin.Unmountable(pod, func(namespace, name string) (*corev1.ConfigMap, error) {
			cm, err := k.configMap(namespace, name)
			found[name] = cm
			return cm, err
		})
		if missing != "" || err != nil {
			wait = retry
			k.delay(pod, missing)
			continue
		}
		k.mu.Lock()
		if record := k.pods[pod.UID]; record != nil {
			record.mounted = found
		}
		k.mu.Unlock()
		if k.startable(pod) {
			k.feed(func(ctx context.Context) { k.simulator.bridge.Pod(ctx, pod) })
		}
	}
	return wait
}

// delay shows in a pod's status that its containers wait for a volume.
func (k *kubelet) delay(pod *corev1.Pod, missing string) {
	if missing == "" || len(pod.Status.ContainerStatuses) > 0 {
		return
	}
	waiting := pod.DeepCopy()
	waiting.Status.StartTime = &metav1.Time{Time: k.simulator.config.Clock.Now()}
	for _, c := range pod.Spec.Containers {
		waiting.Status.ContainerStatuses = append(waiting.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	}
	setReady(&waiting.Status, k.simulator.config.Clock.Now())
	if _, err := k.simulator.config.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(k.ctx, waiting, metav1.UpdateOptions{}); err == nil {
		k.notify(NoDevices, "the device plugin's pod "+pod.Namespace+"/"+pod.Name+" does not start: "+missing)
	}
}

// volumes reads the ConfigMaps in a running pod's volumes: as they are now, and as
// they were when they are gone or cannot be read, because a kubelet keeps the files.
func (k *kubelet) volumes(pod *corev1.Pod) deviceplugin.ConfigMaps {
	return func(namespace, name string) (*corev1.ConfigMap, error) {
		cm, err := k.configMap(namespace, name)
		k.mu.Lock()
		defer k.mu.Unlock()
		record := k.pods[pod.UID]
		if record == nil || record.mounted == nil {
			return cm, err // it ran before this kubelet had it
		}
		if err != nil || cm == nil {
			if kept := record.mounted[name]; kept != nil {
				return kept, nil
			}
			return cm, err
		}
		record.mounted[name] = cm
		return cm, nil
	}
}

func (k *kubelet) configMap(namespace, name string) (*corev1.ConfigMap, error) {
	cm, err := k.simulator.config.Client.CoreV1().ConfigMaps(namespace).Get(k.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, unreachableError{err}
	}
	return cm, nil
}
