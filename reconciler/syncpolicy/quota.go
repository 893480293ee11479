package syncpolicy

import (
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/quota"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// quotaGuard holds what the Sync's guard does not allow beyond the account's quotas.
func quotaGuard(sync *v1alpha1.Sync) plan.Policy {
	return func(p plan.Plan) plan.Plan {
		if sync.Spec.Guard.Quota != v1alpha1.QuotaHold {
			return p
		}
		return p.GuardQuotas(sync.Annotations[v1alpha1.ConfirmAnnotation], exceededQuotas)
	}
}

// exceededQuotas are those that a change from some pools to others makes, and what cannot be determined of them.
func exceededQuotas(before, after []state.Item, quotas []plan.Quota) []hold.Quota {
	before, after = deviceplugin.PhysicalGPUs(before), deviceplugin.PhysicalGPUs(after)
	types, err := catalog.Load()
	if err != nil {
		return unknownQuota(names(after), err.Error())
	}
	reader := quota.NewReader(types)
	was, is := pools(reader, before), pools(reader, after)
	limits, unread := read(quotas, is)
	var out []hold.Quota
	for _, s := range quota.NewlyExceeded(was, is, limits) {
		out = append(out, hold.Quota{Quotas: s.Quotas, Codes: s.Codes, Pools: s.Pools, IncreasedPools: s.IncreasedPools,
			NeededVCPUs: s.NeededVCPUs, LimitVCPUs: s.LimitVCPUs, UsedByOthers: s.UsedByOthers, SmallestType: s.SmallestType, Unlimited: s.Unlimited})
	}
	return append(out, unknown(was, is, unread)...)
}

// uncompared is why nothing is known of a quota that no target reads.
const uncompared = "the Sync declares no Cluster without problems that requires AWS or embeds the engine, so the account whose quotas count is unknown"

// read separates the quotas of the pools, by name, into those with a limit and those that could not be read, with the
// reason. One that Service Quotas does not list is in neither.
func read(quotas []plan.Quota, pools []quota.Pool) (limits map[string]quota.Limit, unread map[string]string) {
	limits, unread = map[string]quota.Limit{}, map[string]string{}
	for _, p := range pools {
		for _, class := range p.Classes() {
			unread[class] = uncompared
		}
	}
	for _, q := range quotas {
		delete(unread, q.Key.Name)
		switch {
		case q.Unknown != "":
			unread[q.Key.Name] = q.Unknown
		case !q.Unlisted:
			limits[q.Key.Name] = quota.Limit{Code: q.Code, VCPUs: q.LimitVCPUs, Used: q.UsedVCPUs}
		}
	}
	return limits, unread
}

// unknown are the pools that need more than before of quotas that could not be read, by the reason.
func unknown(before, after []quota.Pool, unread map[string]string) []hold.Quota {
	byReason := map[string][]string{}
	var reasons []string
	for _, p := range after {
		at := slices.IndexFunc(before, func(b quota.Pool) bool { return b.Name == p.Name })
		if at >= 0 && !p.DrawsMore(before[at]) {
			continue
		}
		for _, class := range p.Classes() {
			why, is := unread[class]
			if !is || slices.Contains(byReason[why], p.Name) {
				continue
			}
			if byReason[why] == nil {
				reasons = append(reasons, why)
			}
			byReason[why] = append(byReason[why], p.Name)
		}
	}
	var out []hold.Quota
	for _, why := range reasons {
		out = append(out, unknownQuota(byReason[why], why)...)
	}
	return out
}

func unknownQuota(pools []string, why string) []hold.Quota {
	return []hold.Quota{{Pools: pools, IncreasedPools: pools, Unknown: why}}
}

func pools(reader quota.Reader, items []state.Item) []quota.Pool {
	out := make([]quota.Pool, 0, len(items))
	for _, item := range items {
		out = append(out, reader.Pool(item.Key.Name, item.Origin.String(), item.Object))
	}
	return out
}

func names(items []state.Item) []string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, item.Key.Name)
	}
	return out
}
