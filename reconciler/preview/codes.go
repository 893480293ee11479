package preview

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what only a merge shows.
const (
	codeChangedOnBothSides finding.Code = "ChangedOnBothSides"
	codeClusterMoved       finding.Code = "ClusterMoved"
)
