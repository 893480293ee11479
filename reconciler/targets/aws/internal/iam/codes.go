package iam

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of notes on roles and on what lets pods assume them.
const (
	codeForeignPolicies         finding.Code = "ForeignPolicies"
	codeOIDCProviderMissing     finding.Code = "OIDCProviderMissing"
	codePodIdentityAgentMissing finding.Code = "PodIdentityAgentMissing"
	codePermissionMissing       finding.Code = "PermissionMissing"
)
