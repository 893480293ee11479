package ebsdriver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	class := "gp3"
	out := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ml", Name: "data", UID: "0f0e0d0c-1111-2222-3333-444455556666", Annotations: map[string]string{provisionerAnnotation: Name},
	}}
	out.Spec.StorageClassName = &class
	out.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for _, f := range change {
		f(out)
	}
	return out
}

func TestEBSSellsWholeGiB(t *testing.T) {
	for requested, want := range map[string]string{
		"": "1Gi", "0": "1Gi", "1": "1Gi", "1Gi": "1Gi", "1073741825": "2Gi", "1500Mi": "2Gi", "10G": "10Gi", "20Gi": "20Gi", "1Ti": "1Ti", "16Ti": "16Ti",
	} {
		claim := testClaim(func(c *corev1.PersistentVolumeClaim) {
			if requested != "" {
				c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}
			}
		})
		got := volumeFor(claim, &storagev1.StorageClass{}, "").Spec.Capacity[corev1.ResourceStorage]
		if got.String() != want {
			t.Errorf("of %q it makes %s, not %s", requested, got.String(), want)
		}
		// The binder takes a volume for the claim only if it is as large.
		if request := claim.Spec.Resources.Requests[corev1.ResourceStorage]; got.Cmp(request) < 0 {
			t.Errorf("of %q it makes %s, which is less", requested, got.String())
		}
	}
}

func TestAVolumeIsTheClaimsByTheRulesOfItsClass(t *testing.T) {
	keep, block := corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeBlock
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, MountOptions: []string{"noatime"}}
	claim := testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block })
	got := volumeFor(claim, class, "us-east-1b")
	want := corev1.PersistentVolumeSpec{
		Capacity: got.Spec.Capacity, AccessModes: claim.Spec.AccessModes, VolumeMode: &block, StorageClassName: "gp3", MountOptions: class.MountOptions,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "ml", Name: "data", UID: claim.UID},
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Name, VolumeHandle: "vol-00f0e0d0c11112222", FSType: "ext4"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1b"}}},
		}}}},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	class.ReclaimPolicy = &keep
	kept := volumeFor(claim, class, "")
	if kept.Spec.PersistentVolumeReclaimPolicy != keep || kept.Spec.NodeAffinity != nil {
		t.Errorf("kept, of no zone: %+v", kept.Spec)
	}
	if kept.Name != got.Name || volumeFor(testClaim(func(c *corev1.PersistentVolumeClaim) { c.UID = "1f0e0d0c-1111-2222-3333-444455556666" }), class, "").Name == got.Name {
		t.Error("the name of a volume is not its claim's")
	}
}

func TestWhichClaimsAndVolumesNeedAStep(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"one that the binder has decided about": {testClaim(), true},
		"not one that it has not":               {testClaim(func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }), false},
		"not one of another driver":             {testClaim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[provisionerAnnotation] = "efs.csi.aws.com" }), false},
		"not one that has a volume":             {testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pvc" }), false},
		"not one that goes":                     {testClaim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &now }), false},
		"not one without a class":               {testClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), false},
	} {
		if got := wantsVolume(tt.claim); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	volume := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		out := volumeFor(testClaim(), &storagev1.StorageClass{}, "")
		out.Status.Phase = corev1.VolumeReleased
		change(out)
		return out
	}
	for name, tt := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"one whose claim is gone": {volume(func(*corev1.PersistentVolume) {}), true},
		"not one that is bound":   {volume(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }), false},
		"not one that is to stay": {volume(func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), false},
		"not one that a person made": {volume(func(v *corev1.PersistentVolume) { v.Annotations = nil }), false},
		"not one that goes already":  {volume(func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &now }), false},
	} {
		if got := released(tt.volume); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
