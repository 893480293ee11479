package controls

// creationTags is that what is made in AWS belongs to its Cluster from its first moment.
func creationTags() Control {
	return Control{
		Name:    "creation-tags",
		Summary: "A role in AWS is made with the tags of its Cluster in the same request.",
		file:    "reconciler/targets/aws/internal/identity/rolewrite.go",
		old:     "Tags: iamTags(tag.Of(wanted)),",
		by:      "Tags: nil,",
		Finds:   "cluster-prerequisites/kill-after/CreateRole",
	}
}

// instanceCollection is that instances are ended that no NodeClaim names.
func instanceCollection() Control {
	return Control{
		Name:    "instance-collection",
		Summary: "An instance that was launched right before a crash, and that no NodeClaim names, is terminated.",
		file:    "provision/engine/awscontrollers.go",
		old:     "allowed:    p.collection,",
		by:      "allowed:    func(context.Context) error { return context.Canceled },",
		Finds:   "scale-up/kill-after/CreateFleet ec2",
	}
}
