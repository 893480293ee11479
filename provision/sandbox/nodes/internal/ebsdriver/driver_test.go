package ebsdriver

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	testingclock "k8s.io/utils/clock/testing"
)

// bench is a driver whose objects are shown to it by hand.
type bench struct {
	*testing.T
	*Driver
	clock *testingclock.FakeClock
	api   *fake.Clientset
}

func newBench(t *testing.T, objects ...apiruntime.Object) bench {
	t.Helper()
	b := bench{T: t, clock: testingclock.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)), api: fake.NewClientset(objects...)}
	var err error
	b.Driver, err = New(Config{Client: b.api, Create: time.Second, Attach: 2 * time.Second, Detach: 3 * time.Second, Clock: b.clock,
		Log: slog.New(slog.DiscardHandler), Zone: func(node string) string { return map[string]string{"n": "us-east-1b"}[node] }})
	if err != nil {
		t.Fatal(err)
	}
	b.ctx = t.Context()
	return b
}

// after shows the object, lets so much time pass, and returns when the step is done,
// if it is.
func (b bench) after(object any, length time.Duration) {
	b.Helper()
	b.step(object)
	for !b.clock.HasWaiters() && !b.idle() {
		runtime.Gosched()
	}
	b.clock.Step(length)
	if !b.clock.HasWaiters() {
		b.Wait()
	}
}

func (b bench) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.busy) == 0
}

func (b bench) attachment() *storagev1.VolumeAttachment {
	b.Helper()
	got, err := b.api.StorageV1().VolumeAttachments().Get(b.Context(), "a", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return got
}

func TestAVolumeIsAttachedAndDetachedWhenEC2HasTakenItsTime(t *testing.T) {
	volume := "v"
	b := newBench(t, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: Name, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}})
	b.after(b.attachment(), 1999*time.Millisecond)
	if got := b.attachment(); got.Status.Attached {
		t.Error("it is attached at once")
	}
	b.after(b.attachment(), time.Millisecond)
	if got := b.attachment(); !got.Status.Attached || len(got.Finalizers) != 1 {
		t.Errorf("two seconds later: attached %t, finalizers %v", got.Status.Attached, got.Finalizers)
	}
	going := b.attachment()
	going.DeletionTimestamp = &metav1.Time{Time: b.clock.Now()}
	b.after(going, 2999*time.Millisecond)
	if got := b.attachment(); len(got.Finalizers) == 0 {
		t.Error("it is detached at once")
	}
	b.after(going, time.Millisecond)
	if got := b.attachment(); len(got.Finalizers) > 0 {
		t.Errorf("three seconds later it has the finalizers %v", got.Finalizers)
	}
}

func TestAClaimGetsAVolumeWhereItsPodGoes(t *testing.T) {
	later, keep := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, Provisioner: Name, VolumeBindingMode: &later, ReclaimPolicy: &keep}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "d", UID: "01234567-89ab-cdef-0123-456789abcdef", Annotations: map[string]string{provisionerAnnotation: Name}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class.Name, Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1")}}},
	}
	b := newBench(t, class)
	name := "pvc-" + string(claim.UID)
	b.after(claim, time.Second)
	if _, err := b.api.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("before a node is chosen there is a volume: %v", err)
	}
	claim.Annotations[selectedNodeAnnotation] = "n"
	b.after(claim, time.Second)
	got, err := b.api.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	size, at := got.Spec.Capacity[corev1.ResourceStorage], got.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	displayed := []string{size.String(), at.Key + "=" + at.Values[0], got.Spec.CSI.VolumeHandle, string(got.Spec.PersistentVolumeReclaimPolicy), got.Spec.ClaimRef.Name}
	if diff := cmp.Diff([]string{"1Gi", "topology.ebs.csi.aws.com/zone=us-east-1b", "vol-00123456789abcdef", "Retain", "c"}, displayed); diff != "" {
		t.Errorf("the volume (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotTheDriversIsLeftAlone(t *testing.T) {
	b := newBench(t)
	yes := metav1.Now()
	for name, object := range map[string]any{
		"a claim of another driver":     &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{provisionerAnnotation: "efs.csi.aws.com"}}},
		"a claim that waits":            &corev1.PersistentVolumeClaim{},
		"another driver's attachment":   &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: "efs.csi.aws.com"}},
		"an attachment that is gone":    &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &yes}, Spec: storagev1.VolumeAttachmentSpec{Attacher: Name}},
		"a released volume of somebody": &corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete}},
		"a volume that is kept":         &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{provisionedByAnnotation: Name}}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain}},
	} {
		if _, do := b.next(object); do != nil {
			t.Errorf("%s: something is done with it", name)
		}
	}
}

func TestAReleasedVolumeStaysWhileItIsAttached(t *testing.T) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "2", Annotations: map[string]string{provisionedByAnnotation: Name}},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}}
	b := newBench(t, volume)
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume.Name}}}
	for _, gone := range []bool{false, true} {
		if err := b.attachments.GetStore().Add(attachment); err != nil {
			t.Fatal(err)
		}
		if gone {
			if err := b.attachments.GetStore().Delete(attachment); err != nil {
				t.Fatal(err)
			}
		}
		b.step(volume)
		b.Wait()
		if _, err := b.api.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{}); apierrors.IsNotFound(err) != gone {
			t.Errorf("detached %t: %v", gone, err)
		}
	}
}
