package finding

// forecastDescriptors are the codes of what forecasts leave open.
func forecastDescriptors() []Descriptor {
	return []Descriptor{
		{"AMIAliasInvalid", Note, "An AMI alias is not a family and a version, so that the replacement of nodes cannot be predicted.", "Correct the alias."},
		{"AMISelectionUnknown", Note, "A change selects AMIs that only AWS has, so that more nodes may be replaced.", "Pin the AMI, or let the forecast read AWS."},
		{"AffinityTooWide", Note, "The affinity of a pod has more alternatives than were tried.", "Simplify the affinity."},
		{"EnclaveSupportUnknown", Note, "Which instance types support Nitro Enclaves is not in the catalog.", "None is necessary."},
		{"ForecastFailed", Note, "What a change does to nodes, pods and money could not be computed.", "Correct what the message names."},
		{"ImpactUnknown", Note, "What a change of one object does to nodes could not be computed.", "Correct what the message names."},
		{"NamespaceLabelsUnknown", Note, "Pods select others by the labels of namespaces, which are not read.", "None is necessary."},
		{"NodeCapacityUnknown", Note, "What the nodes of a class hold could not be computed.", "Correct what the message names."},
		{"NodeClassHashUnknown", Note, "The hash of a class in the cluster could not be read.", "None is necessary."},
		{"NodeClassMissing", Note, "A NodePool has no usable EC2NodeClass.", "Declare the class, or correct the reference."},
		{"NodeClassOutdated", Note, "Karpenter has not reconciled the newest generation of a class.", "Wait until it has."},
		{"NodeHashMissing", Note, "Nodes lack the annotation by which Karpenter finds drift.", "Wait until Karpenter has set it."},
		{"NodeHashOutdated", Note, "Nodes have the hash of another version of Karpenter.", "Wait until Karpenter has set it anew."},
		{"NodeOverlayPriceInvalid", Note, "The price of a NodeOverlay is no number that Karpenter takes.", "Correct it."},
		{"NodeOverlayRefused", Note, "Karpenter refuses a NodeOverlay, so that it has no effect.", "Correct what the message names."},
		{"NodePoolMissing", Note, "Nodes are of a NodePool that does not exist.", "None is necessary where it was deleted."},
		{"NodePoolRefused", Note, "The API server would refuse a NodePool, so that the forecast is of the one in the cluster.", "Correct the requirement."},
		{"NodesUnknown", Note, "No node was read, so that only nodes of the forecast itself are counted.", "None is necessary without a cluster."},
		{"PendingPodsNotTried", Note, "Whether all pending pods find a node beside one was not tried.", "None is necessary."},
		{"PodsRefused", Note, "The API server would refuse the pods of a workload, so that they are left out.", "Correct what the message names."},
		{"PriceMissing", Note, "The catalog has no price of an instance type, and without one Karpenter starts no node.", "None is necessary where the region has the type."},
		{"PriceUnknown", Note, "An instance type has no price in the catalog, so that it is left out of the costs.", "None is necessary."},
		{"RegionWithoutPrices", Note, "The catalog has no prices of the region, so that costs are left out.", "None is necessary."},
		{"ReservationCapacityUnknown", Note, "How many instances are available in capacity reservations is not read.", "Let the forecast read AWS."},
		{"ReservationSelectionUnknown", Note, "A change selects capacity reservations that only AWS has, so that more nodes may be replaced.", "Let the forecast read AWS."},
		{"ReservationsUnknown", Note, "Which capacity reservations a class selects is not read.", "Let the forecast read AWS."},
		{"RuntimeClassUnknown", Note, "A RuntimeClass is not read, so that what it requires of nodes is left out.", "Declare it, or let the forecast read the cluster."},
		{"SecurityGroupSelectionUnknown", Note, "A change selects security groups that only AWS has, so that all nodes of the class may be replaced.", "Name them by id, or let the forecast read AWS."},
		{"SubnetSelectionUnknown", Note, "A change selects subnets that only AWS has, so that nodes in others may be replaced.", "Name them by id, or let the forecast read AWS."},
		{"SubnetZonesUnknown", Note, "In which zones the subnets of a class are is not read.", "Let the forecast read AWS."},
		{"TooManyPodKinds", Note, "More kinds of pods find no node than were tried alone.", "None is necessary."},
		{"TooManyPods", Note, "There are more pending pods than are simulated one by one.", "None is necessary."},
	}
}
