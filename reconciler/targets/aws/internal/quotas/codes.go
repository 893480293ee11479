package quotas

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is found of quotas.
const (
	codeQuotaUsage        finding.Code = "QuotaUsage"
	codeQuotaUnlisted     finding.Code = "QuotaUnlisted"
	codeOtherQuotas       finding.Code = "OtherQuotasMayApply"
	codeQuotaTooSmall     finding.Code = "QuotaTooSmall"
	codeQuotaAllowsNoNode finding.Code = "QuotaAllowsNoNode"
)
