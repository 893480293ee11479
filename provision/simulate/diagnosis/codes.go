package diagnosis

import "github.com/poolwright/poolwright/provision"

// The codes of what is left open.
const (
	codeAffinityTooWide     provision.UnknownCode = "AffinityTooWide"
	codePendingPodsNotTried provision.UnknownCode = "PendingPodsNotTried"
)
