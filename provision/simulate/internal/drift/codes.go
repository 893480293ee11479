package drift

import "github.com/poolwright/poolwright/provision"

// The codes of what is left open.
const (
	codeReservationSelectionUnknown   provision.UnknownCode = "ReservationSelectionUnknown"
	codeAMISelectionUnknown           provision.UnknownCode = "AMISelectionUnknown"
	codeSecurityGroupSelectionUnknown provision.UnknownCode = "SecurityGroupSelectionUnknown"
	codeSubnetSelectionUnknown        provision.UnknownCode = "SubnetSelectionUnknown"
	codeNodeHashOutdated              provision.UnknownCode = "NodeHashOutdated"
	codeNodeHashMissing               provision.UnknownCode = "NodeHashMissing"
	codeNodeClassHashUnknown          provision.UnknownCode = "NodeClassHashUnknown"
)
