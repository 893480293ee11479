package snapshot

import "github.com/poolwright/poolwright/provision"

// NodeClassMissing is of a NodePool without a usable EC2NodeClass.
const NodeClassMissing provision.UnknownCode = "NodeClassMissing"

// The codes of what is left open.
const (
	codeAMIAliasInvalid         provision.UnknownCode = "AMIAliasInvalid"
	codeNodeOverlayPriceInvalid provision.UnknownCode = "NodeOverlayPriceInvalid"
	codeNodePoolRefused         provision.UnknownCode = "NodePoolRefused"
	codePodsRefused             provision.UnknownCode = "PodsRefused"
	codeRuntimeClassUnknown     provision.UnknownCode = "RuntimeClassUnknown"
)
