package controls

const deleteOptions = "metav1.DeleteOptions{Preconditions: pre, PropagationPolicy: &background}"

// deletionPreconditions is that a deletion names the incarnation that it is meant for.
func deletionPreconditions() Control {
	return Control{
		Name:    "deletion-preconditions",
		Summary: "A deletion has the UID and the resourceVersion of the object that was planned to go.",
		file:    "reconciler/targets/internal/api/api.go",
		old:     deleteOptions,
		by:      "metav1.DeleteOptions{Preconditions: map[*metav1.Preconditions]*metav1.Preconditions{}[pre], PropagationPolicy: &background}",
		Finds:   "update-and-prune/replace",
	}
}

// deletionVersion is that a deletion names the version of the object that was planned to go.
func deletionVersion() Control {
	return Control{
		Name:    "deletion-version",
		Summary: "A deletion has the resourceVersion of the object that was planned to go, so that a mark of a person in the meantime counts.",
		file:    "reconciler/targets/internal/api/api.go",
		old:     "\tif version != \"\" {\n\t\tpre.ResourceVersion",
		by:      "\tif version == \"never\" {\n\t\tpre.ResourceVersion",
		Finds:   "update-and-prune/keep",
	}
}

// lossRecount is that what goes with a deletion is counted again right before it is sent.
func lossRecount() Control {
	return Control{
		Name:    "loss-recount",
		Summary: "What goes with a deletion is counted again right before the request, and after a conflict.",
		file:    "reconciler/targets/kubernetes/losses.go",
		old:     "targets.MayDelete(j.Change, lost); err != nil {",
		by:      "targets.MayDelete(j.Change, lost); err != nil && j == nil {",
		Finds:   "prune-with-losses/nodes-arrive",
	}
}

// liveValidation is that an empty node is validated after it is tainted.
func liveValidation() Control {
	return Control{
		Name:    "live-validation",
		Summary: "The pods of an empty node are listed after it got the taint of its disruption, and a pod that was bound in between keeps it.",
		file:    "provision/engine/emptiness/client.go",
		old:     "if err := c.validate(ctx, claim); err != nil {",
		by:      "if err := c.validate(ctx, claim); err != nil && c == nil {",
		Finds:   "node-used-again/pod-bound/patch nodes",
	}
}
