package simulate

import "github.com/poolwright/poolwright/provision"

// The codes of what is left open.
const (
	codePriceUnknown           provision.UnknownCode = "PriceUnknown"
	codeSubnetZonesUnknown     provision.UnknownCode = "SubnetZonesUnknown"
	codeNodesUnknown           provision.UnknownCode = "NodesUnknown"
	codeNodeClassOutdated      provision.UnknownCode = "NodeClassOutdated"
	codeNodeClassNotReady      provision.UnknownCode = "NodeClassNotReady"
	codeTooManyPods            provision.UnknownCode = "TooManyPods"
	codeNamespaceLabelsUnknown provision.UnknownCode = "NamespaceLabelsUnknown"
	codeTooManyPodKinds        provision.UnknownCode = "TooManyPodKinds"
	codeResourceClaimsUnplaced provision.UnknownCode = "ResourceClaimsNotPlaced"
	codeNodePoolMissing        provision.UnknownCode = "NodePoolMissing"
)
