package aws

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is wrong with a Cluster as a whole, and of what is unknown.
const (
	codeSecondCluster      finding.Code = "SecondCluster"
	codeResourceConflict   finding.Code = "ResourceConflict"
	codeQuotaUnknown       finding.Code = "QuotaUnknown"
	codeDeclarationInvalid finding.Code = "DeclarationInvalid"
	codeClusterUndeclared  finding.Code = "ClusterUndeclared"
)
