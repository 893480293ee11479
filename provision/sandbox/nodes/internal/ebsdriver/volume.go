package ebsdriver

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the driver's, as StorageClasses name their provisioner.
const Name = "ebs.csi.aws.com"

const (
	provisionerAnnotation   = "volume.kubernetes.io/storage-provisioner"
	selectedNodeAnnotation  = "volume.kubernetes.io/selected-node"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	attachFinalizer         = "external-attacher/ebs-csi-aws-com"
	zoneLabel               = "topology.ebs.csi.aws.com/zone"
	gib                     = int64(1) << 30
	// volumesPerNode is a low figure of what instances of the Nitro system take
	// besides their root volume and network interfaces.
	volumesPerNode = int32(25)
)

// csiNode is what a kubelet writes of its drivers.
func csiNode(node *corev1.Node, instance string) *storagev1.CSINode {
	most := volumesPerNode
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: Name, NodeID: instance, TopologyKeys: []string{corev1.LabelOSStable, zoneLabel, corev1.LabelTopologyZone},
			Allocatable: &storagev1.VolumeNodeResources{Count: &most},
		}}},
	}
}

// wantsVolume reports whether the binder waits for a volume of this driver: it sets an
// annotation, once it has decided what it needs.
func wantsVolume(claim *corev1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp.IsZero() && claim.Spec.VolumeName == "" && claim.Annotations[provisionerAnnotation] == Name &&
		claim.Spec.StorageClassName != nil
}

// released reports whether a volume of this driver goes with its claim.
func released(volume *corev1.PersistentVolume) bool {
	return volume.DeletionTimestamp.IsZero() && volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && volume.Annotations[provisionedByAnnotation] == Name
}

// provision makes the volume of a claim, in the zone of the node that the scheduler
// chose; a claim that is bound before there is a pod has any zone.
func (d *Driver) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := d.config.Client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node := claim.Annotations[selectedNodeAnnotation]
	later := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if later && node == "" {
		return nil
	}
	_, err = d.config.Client.CoreV1().PersistentVolumes().Create(ctx, volumeFor(claim, class, d.config.Zone(node)), metav1.CreateOptions{})
	return err
}

// volumeFor is the PersistentVolume as the driver's provisioner writes it. EBS
// sells whole GiB.
func volumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone string) *corev1.PersistentVolume {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := resource.NewQuantity((max(requested.Value(), 1)+gib-1)/gib*gib, resource.BinarySI)
	out := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedByAnnotation: Name}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: *size}, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName: class.Name, MountOptions: class.MountOptions, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: Name, VolumeHandle: "vol-0" + strings.ReplaceAll(string(claim.UID), "-", "")[:16], FSType: "ext4",
			}},
		},
	}
	if class.ReclaimPolicy != nil {
		out.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if zone != "" {
		out.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
	}
	return out
}

// remove deletes a released volume, once it is attached nowhere: before, EC2 refuses.
func (d *Driver) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	for _, o := range d.attachments.GetStore().List() {
		if name := o.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName; name != nil && *name == volume.Name {
			return nil
		}
	}
	return d.config.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}})
}

// attach reports a volume as attached. The finalizer comes first: an attachment must
// not go before it is undone.
func (d *Driver) attach(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	client := d.config.Client.StorageV1().VolumeAttachments()
	now := attachment.DeepCopy()
	if !slices.Contains(now.Finalizers, attachFinalizer) {
		now.Finalizers = append(now.Finalizers, attachFinalizer)
		var err error
		if now, err = client.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	now.Status.Attached = true
	_, err := client.UpdateStatus(ctx, now, metav1.UpdateOptions{})
	return err
}

func (d *Driver) detach(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	now := attachment.DeepCopy()
	now.Finalizers = slices.DeleteFunc(now.Finalizers, func(name string) bool { return name == attachFinalizer })
	_, err := d.config.Client.StorageV1().VolumeAttachments().Update(ctx, now, metav1.UpdateOptions{})
	return err
}
