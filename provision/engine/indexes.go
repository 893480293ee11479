package engine

import (
	"context"
	"fmt"

	"github.com/aws/karpenter-provider-aws/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// fieldIndex is one field that Karpenter selects objects by. Value returns false to
// leave an object out of the index.
type fieldIndex struct {
	object client.Object
	field  string
	value  func(client.Object) (string, bool)
}

// addIndexes registers what Karpenter's core and its AWS provider read from the cache
// by index. A missing CRD is an error here, unlike in stock Karpenter, because the
// caller installs the CRDs before the manager exists.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	all := append(coreIndexes(), classIndexes()...)
	for _, ix := range append(all, instanceIndexes()...) {
		extract := func(o client.Object) []string {
			if v, ok := ix.value(o); ok {
				return []string{v}
			}
			return nil
		}
		if err := indexer.IndexField(ctx, ix.object, ix.field, extract); err != nil {
			return fmt.Errorf("indexing %T by %s: %w: install the engine's CRDs first, and give each AddTo its own manager", ix.object, ix.field, err)
		}
	}
	return nil
}

func coreIndexes() []fieldIndex {
	return []fieldIndex{
		{&corev1.Pod{}, "spec.nodeName", func(o client.Object) (string, bool) {
			return o.(*corev1.Pod).Spec.NodeName, true
		}},
		{&corev1.Node{}, "spec.providerID", func(o client.Object) (string, bool) {
			return o.(*corev1.Node).Spec.ProviderID, true
		}},
		{&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) (string, bool) {
			return o.(*storagev1.VolumeAttachment).Spec.NodeName, true
		}},
		{&karpv1.NodeClaim{}, "status.providerID", func(o client.Object) (string, bool) {
			return o.(*karpv1.NodeClaim).Status.ProviderID, true
		}},
	}
}

// classIndexes find the claims and pools of a node class. An object without a
// reference is left out: its CRD forbids it, an old stored one may still be there.
func classIndexes() []fieldIndex {
	part := map[string]func(*karpv1.NodeClassReference) string{
		"group": func(r *karpv1.NodeClassReference) string { return r.Group },
		"kind":  func(r *karpv1.NodeClassReference) string { return r.Kind },
		"name":  func(r *karpv1.NodeClassReference) string { return r.Name },
	}
	var all []fieldIndex
	for _, name := range []string{"group", "kind", "name"} {
		read := func(r *karpv1.NodeClassReference) (string, bool) {
			if r == nil {
				return "", false
			}
			return part[name](r), true
		}
		all = append(all,
			fieldIndex{&karpv1.NodeClaim{}, "spec.nodeClassRef." + name, func(o client.Object) (string, bool) {
				return read(o.(*karpv1.NodeClaim).Spec.NodeClassRef)
			}},
			fieldIndex{&karpv1.NodePool{}, "spec.template.spec.nodeClassRef." + name, func(o client.Object) (string, bool) {
				return read(o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef)
			}})
	}
	return all
}

// instanceIndexes find the claim and the node of an EC2 instance.
func instanceIndexes() []fieldIndex {
	instance := func(providerID string) (string, bool) {
		id, err := utils.ParseInstanceID(providerID)
		return id, err == nil && id != ""
	}
	return []fieldIndex{
		{&karpv1.NodeClaim{}, "status.instanceID", func(o client.Object) (string, bool) {
			return instance(o.(*karpv1.NodeClaim).Status.ProviderID)
		}},
		{&corev1.Node{}, "spec.instanceID", func(o client.Object) (string, bool) {
			return instance(o.(*corev1.Node).Spec.ProviderID)
		}},
	}
}
