package controls

// creationTags is that what is made in AWS belongs to its Cluster from its first moment.
func creationTags() Control {
	return Control{
		Name:    "creation-tags",
		Summary: "A role in AWS is made with the tags of its Cluster in the same request.",
		file:    "reconciler/targets/aws/internal/iam/rolewrite.go",
		old:     "Tags: iamTags(tag.Declared(desired)),",
		by:      "Tags: nil,",
		Finds:   "cluster-prerequisites/kill-after/CreateRole",
	}
}

// instanceCollection is that instances are ended that no NodeClaim names.
func instanceCollection() Control {
	return Control{
		Name:    "instance-collection",
		Summary: "An instance that was launched right before a crash, and that no NodeClaim names, is terminated.",
		file:    "provision/engine/collection.go",
		old:     "allowed:    p.collection,",
		by:      "allowed:    func(context.Context) error { return context.Canceled },",
		Finds:   "scale-up(-again)?/(kill-after|more-instances)/CreateFleet ec2",
	}
}

// unavailableOfferings is that offerings without capacity are left alone for some time.
func unavailableOfferings() Control {
	return Control{
		Name:    "unavailable-offerings",
		Summary: "An offering for which EC2 had no capacity is not requested again for three minutes.",
		file:    "provision/engine/providers.go",
		old:     "p.caches.unavailable, instancetype.NewDefaultResolver(region, p.expressions)",
		by:      "awscache.NewUnavailableOfferings(), instancetype.NewDefaultResolver(region, p.expressions)",
		Finds:   "scale-up-again/no-capacity",
	}
}

// interruptionWarnings is that EC2's warnings are handled.
func interruptionWarnings() Control {
	return Control{
		Name:    "interruption-warnings",
		Summary: "The pods of a spot instance get another machine when EC2 announces its end, and not after that.",
		file:    "provision/engine/awscontrollers.go",
		old:     "if opts.InterruptionQueue != \"\" {",
		by:      "if opts.InterruptionQueue == \"\\x00\" {",
		Finds:   "interruption/none",
	}
}

// lateReplacement is that a node that never advertises its GPUs is replaced.
func lateReplacement() Control {
	return Control{
		Name:    "unready-replacement",
		Summary: "A node that never advertises its GPUs is replaced once its time is over.",
		file:    "provision/gpu/readiness/timeout.go",
		old:     "return latest(due, past.firstObserved.Add(watch))",
		by:      "return latest(due, past.firstObserved.Add(watch)).AddDate(1, 0, 0)",
		Finds:   "node-never-offers/none",
	}
}

// earlyReplacement is that it has its time.
func earlyReplacement() Control {
	return Control{
		Name:    "unready-deadline",
		Summary: "A node that does not advertise its GPUs yet is not replaced before its time is over.",
		file:    "provision/gpu/readiness/timeout.go",
		old:     "return latest(due, past.firstObserved.Add(watch))",
		by:      "return latest(due, past.firstObserved.Add(watch)).Add(-timeout / 2)",
		Finds:   "node-never-offers/none",
	}
}
