package aws

import (
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
)

func isQuota(k state.Key) bool { return k.Group == "servicequotas" && k.Kind == "Quota" }

// toleratesUnread reports whether a quota that could not be read is a warning and leaves the Sync ready: where the
// permission is missing, which no later read changes, and whatever the reason where the Cluster requires
// nothing else of AWS, since nothing that is declared depends on AWS there.
func (o *observation) toleratesUnread(k state.Key, err error) bool {
	return err != nil && isQuota(k) && (awserr.Denied(err) || !clusterspec.NeedsAWS(o.desired.Spec))
}

// unreadQuotas gives every quota that could not be read its finding, since what exceeds it must not pass as though
// there were none. Those that are spared are not unknown, and one of them has the warning: the reason is that of one
// request for all.
func (o *observation) unreadQuotas(items []state.Item) []state.Item {
	warned := map[string]bool{}
	for i, item := range items {
		live := o.live[item.Key]
		if live.Err == nil || !isQuota(item.Key) {
			continue
		}
		why := live.Err.Error()
		items[i].Quota = &state.Quota{Unknown: why}
		if !o.toleratesUnread(item.Key, live.Err) {
			continue
		}
		items[i].Unknown, items[i].UnknownCode, items[i].Object = "", "", map[string]any{}
		if !warned[why] {
			warned[why] = true
			items[i].Warnings = []finding.Finding{finding.New(codeQuotaUnknown, "the vCPU quotas cannot be compared with the NodePools: %s", finding.NewFact("reason", why))}
		}
	}
	return items
}

// unreadQuotas are the quotas without a value that are not unknown, for the status of the Cluster.
func unreadQuotas(found state.Set) []plan.Unknown {
	var out []plan.Unknown
	for item := range found.All() {
		if item.Quota != nil && item.Quota.Unknown != "" && item.Unknown == "" && !item.Hidden {
			out = append(out, plan.Unknown{Key: item.Key, Code: codeQuotaUnknown, Reason: item.Quota.Unknown})
		}
	}
	return out
}
