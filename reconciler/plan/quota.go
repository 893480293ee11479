package plan

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// Quota is what a target read of a quota.
type Quota struct {
	Key state.Key
	state.Quota
}

// MarkPartial marks a plan as Partial. It goes before the policies that depend on that.
func MarkPartial() Policy {
	return func(p Plan) Plan {
		p.Partial = true
		return p
	}
}

func isPool(key state.Key) bool { return key.Group == "karpenter.sh" && key.Kind == "NodePool" }

// boundsPools reports whether a thing is a NodePool, or decides how many GPUs the limit of one stands for.
func boundsPools(key state.Key) bool {
	return isPool(key) || key.Group == "poolwright.dev" && key.Kind == "DevicePlugin"
}

// declaresPool reports whether a revision makes or changes a NodePool with the change. Putting back what a hand
// changed is nobody's decision to confirm.
func (c Change) declaresPool() bool {
	return isPool(c.Key) && c.Action != Delete && !c.Drift && !c.ReadOnly()
}

// poolsBefore are the Pools as they are without the plan. What a hand changed of them counts as it is
// declared: it is no difference that the revision makes.
func (p Plan) poolsBefore() []state.Item {
	before := map[state.Key]*state.Item{}
	for _, c := range p.Changes {
		if boundsPools(c.Key) && !c.Drift {
			before[c.Key] = c.Before
		}
	}
	var out []state.Item
	for _, item := range p.Pools {
		was, changed := before[item.Key]
		switch {
		case !changed:
			out = append(out, item)
		case was != nil:
			out = append(out, *was)
		}
	}
	for _, c := range p.Changes {
		if boundsPools(c.Key) && c.Action == Delete {
			out = append(out, *c.Before)
		}
	}
	return out
}

// declaredPools are the things as a token stands for them, sorted by key.
func declaredPools(items []state.Item) []subject {
	out := make([]subject, 0, len(items))
	for _, item := range items {
		out = append(out, subject{Key: item.Key, After: item.Object})
	}
	slices.SortFunc(out, func(a, b subject) int { return a.Key.Compare(b.Key) })
	return out
}

// quotasAfter are the Quotas without what the pools use that the plan deletes: it is free for those that replace them. A
// deletion that is held frees nothing.
func (p Plan) quotasAfter() []Quota {
	out := slices.Clone(p.Quotas)
	for _, c := range p.Changes {
		if !isPool(c.Key) || c.Action != Delete || !c.Admitted() {
			continue
		}
		for i, q := range out {
			out[i].UsedVCPUs -= q.UsedBy[c.Key.Name]
		}
	}
	return out
}

// GuardQuotas holds each NodePool that a revision makes or changes and that exceeded names among those by which
// pools need more than quotas have left, until confirmation quotes their token. It stands for all pools as they are
// declared, whichever of them are held: that moves with what others use, and with what is applied already. exceeded is called at
// most once, with the pools without the plan and with it, and what was read of their quotas, and not at all where
// no pool is declared anew. It is called without any quota as well: that none were read is nothing by which a change
// could pass. Only a plan that is Partial holds nothing.
func (p Plan) GuardQuotas(confirmation string, exceeded func(before, after []state.Item, quotas []Quota) []hold.Quota) Plan {
	if p.Partial || !slices.ContainsFunc(p.Changes, Change.declaresPool) {
		return p
	}
	found := exceeded(p.poolsBefore(), p.Pools, p.quotasAfter())
	reasons := func(c Change) hold.Reasons {
		var out hold.Reasons
		for _, q := range found {
			if c.declaresPool() && slices.Contains(q.IncreasedPools, c.Key.Name) {
				out = append(out, hold.Reason{Rule: hold.QuotaExceeded, Facts: hold.Facts{Quota: &q}})
			}
		}
		return out
	}
	token := &hold.Token{Purpose: "quota", Digest: confirm.Digest(declaredPools(p.Pools))}
	_, quoted := token.ConfirmedBy(confirmation, p.Binding)
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		why := reasons(c)
		switch {
		case len(why) == 0:
		case quoted:
			p.Changes[i].Tokens = append(slices.Clip(c.Tokens), *token)
		default:
			for j := range why {
				why[j].Token = token
			}
			p.Changes[i].Hold = append(slices.Clip(c.Hold), why...)
		}
	}
	return p
}
