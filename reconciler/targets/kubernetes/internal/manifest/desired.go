// Package manifest has the forms of an object: as Git declares it, as it is sent, and a live one
// without what the API server and controllers write.
//
// It refuses to change what it is given: each form is a copy. Start reading at Desired.
package manifest

import (
	"encoding/base64"
	"maps"
	"strings"

	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Desired is a declared item as it is sent and planned: labelled with the value of
// [v1alpha1.SyncLabel], in its wave, without what only a live object has.
func Desired(item state.Item, label string) state.Item {
	item.Object = clean(item, label)
	item.Wave, item.OnDecrease = kinds.ObjectWave(item.Key, item.Object), kinds.WaveOnDecrease(item.Key.Group, item.Key.Kind)
	item.DeletionImpact, item.Live, item.Owner, item.Applied = loss.DeletionImpact{}, state.Preconditions{}, owner.Reference{}, ""
	return item
}

// stripped are the annotations that exported copies carry and that belong to
// controllers: sent back, they would fight them, and drift every node.
func stripped(annotation string) bool {
	switch annotation {
	case "kubectl.kubernetes.io/last-applied-configuration",
		"deployment.kubernetes.io/revision",
		"karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version",
		"karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version",
		"karpenter.sh/stored-version-migrated", noderepair.BackoffAnnotation:
		return true
	}
	return strings.HasPrefix(annotation, "compatibility.karpenter.")
}

// clean copies an object without what only a live one has, and labels it.
func clean(item state.Item, label string) map[string]any {
	out := maps.Clone(item.Object)
	delete(out, "status")
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	// Owners are named by their UIDs, which mean nothing in another cluster:
	// the garbage collector would delete the object as soon as it is made.
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences"} {
		delete(metadata, field)
	}
	metadata["name"] = item.Key.Name
	delete(metadata, "namespace")
	if item.Key.Namespace != "" {
		metadata["namespace"] = item.Key.Namespace
	}
	if old, ok := metadata["annotations"].(map[string]any); ok {
		kept := maps.Clone(old)
		maps.DeleteFunc(kept, func(k string, _ any) bool { return stripped(k) })
		metadata["annotations"] = kept
		if len(kept) == 0 {
			delete(metadata, "annotations")
		}
	}
	labels := map[string]any{}
	if old, ok := metadata["labels"].(map[string]any); ok {
		maps.Copy(labels, old)
	}
	labels[v1alpha1.SyncLabel] = label
	metadata["labels"] = labels
	out["metadata"] = metadata
	if kinds.IsSecret(item.Key) {
		binary(out)
	}
	return out
}

// binary moves a Secret's stringData into data, as the API server would, so
// that both sides of a comparison have one form.
func binary(secret map[string]any) {
	plain, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	data := map[string]any{}
	if old, ok := secret["data"].(map[string]any); ok {
		maps.Copy(data, old)
	}
	for k, v := range plain {
		if s, ok := v.(string); ok {
			data[k] = base64.StdEncoding.EncodeToString([]byte(s))
		} else {
			data[k] = v
		}
	}
	delete(secret, "stringData")
	secret["data"] = data
}
