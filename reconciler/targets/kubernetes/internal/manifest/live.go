package manifest

import "maps"

// LastApplied is the annotation in which kubectl's client-side apply keeps what was declared.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// ClientSideManager is the name under which `kubectl apply` owns fields.
const ClientSideManager = "kubectl-client-side-apply"

// Strip copies a live object without what the API server and controllers
// write.
func Strip(object map[string]any) map[string]any {
	out := maps.Clone(object)
	delete(out, "status")
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		delete(metadata, field)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, LastApplied)
		metadata["annotations"] = annotations
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	out["metadata"] = metadata
	return out
}

// WithMetadata copies an object with one entry of its metadata replaced.
func WithMetadata(object map[string]any, field string, value any) map[string]any {
	out := maps.Clone(object)
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata[field] = value
	out["metadata"] = metadata
	return out
}
