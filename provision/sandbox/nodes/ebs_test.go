package nodes_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumeLife runs against the real binder, scheduler and attach-detach controller.
func volumeLife(t *testing.T, w *fixture) {
	later := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &later, Parameters: map[string]string{"type": "gp3"}}
	if _, err := w.api.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims := w.api.CoreV1().PersistentVolumeClaims("default")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class.Name,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1500Mi")}}}}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := workload("stateful", "", 0)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	created := w.create(t, pod)
	running := w.phase(t, created, corev1.PodRunning)
	bound, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume, err := w.api.CoreV1().PersistentVolumes().Get(t.Context(), bound.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zone := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.String() != "2Gi" || zone != w.node(t, running.Spec.NodeName).Labels["topology.ebs.csi.aws.com/zone"] {
		t.Errorf("the volume has %s in %s", size.String(), zone)
	}
	w.attached(t, volume.Name, running.Spec.NodeName)
	w.delete(t, created)
	w.waitDeleted(t, created)
	w.attached(t, volume.Name, "")
	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, func() string {
		if _, err := w.api.CoreV1().PersistentVolumes().Get(t.Context(), volume.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the volume of a claim that is gone stays: %v", err)
		}
		return ""
	})
}

// attached waits until the volume is attached to that node only, "" for none.
func (w *fixture) attached(t *testing.T, volume, node string) {
	t.Helper()
	w.eventually(t, func() string {
		list, err := w.api.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		got := ""
		for _, a := range list.Items {
			if *a.Spec.Source.PersistentVolumeName == volume {
				got = fmt.Sprintf("%s %t", a.Spec.NodeName, a.Status.Attached)
			}
		}
		if want := node + " true"; got != want && (got != "" || node != "") {
			return fmt.Sprintf("volume %s is attached to %q, want %q", volume, got, node)
		}
		return ""
	})
}
