package aws

import (
	"context"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/discovery"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// losingFields are the fields of things, by kind, whose change may lose nodes or data as a
// deletion does: what nodes live on can also be emptied, renamed or made smaller. Each reports whether it does; live is all that was read of the thing. Any other field
// loses neither.
func losingFields() map[string]map[string]func(k state.Key, desired, live map[string]any) bool {
	at := func(field string, lost func(desired, live any) bool) func(state.Key, map[string]any, map[string]any) bool {
		return func(_ state.Key, desired, live map[string]any) bool { return lost(desired[field], live[field]) }
	}
	found := map[string]func(state.Key, map[string]any, map[string]any) bool{"tags": otherDiscovery}
	return map[string]map[string]func(state.Key, map[string]any, map[string]any) bool{
		"Role": {
			"policies": at("policies", fewer), "managedPolicies": at("managedPolicies", fewer),
			"inlinePolicies": at("inlinePolicies", fewer), "permissionsBoundary": at("permissionsBoundary", other),
		},
		"InstanceProfile":  {"role": at("role", other)},
		"SubnetTag":        found,
		"SecurityGroupTag": found,
		"NodeGroup":        {"desiredSize": fewerNodes, "maxSize": fewerNodes},
		"LogGroup":         {"retentionDays": at("retentionDays", shorter)},
	}
}

// fewer reports whether something of a list is not desired any more.
func fewer(desired, live any) bool {
	have, _ := live.([]any)
	want, _ := desired.([]any)
	return slices.ContainsFunc(have, func(v any) bool { return !slices.Contains(want, v) })
}

// other reports whether there is another value in the place of one.
func other(desired, live any) bool { return live != nil && !state.Equal(desired, live) }

// shorter reports whether a number of days becomes less; none is for ever.
func shorter(desired, live any) bool {
	want, limited := fields.Int64(desired)
	have, was := fields.Int64(live)
	return limited && (!was || want < have)
}

// otherDiscovery reports whether the discovery tag gets another value: Karpenter finds
// nothing by the one that it had.
func otherDiscovery(k state.Key, desired, live map[string]any) bool {
	_, key := discovery.ParseName(k.Name)
	want, _ := desired["tags"].(map[string]any)
	have, _ := live["tags"].(map[string]any)
	return other(want[key], have[key])
}

func fewerNodes(_ state.Key, desired, live map[string]any) bool { return lostNodes(desired, live) > 0 }

// lostNodes is by how many nodes a node group becomes smaller.
func lostNodes(desired, live map[string]any) int64 {
	now, _ := fields.Int64(live["desiredSize"])
	after, sized := fields.Int64(desired["desiredSize"])
	if !sized {
		after = now
	}
	if most, limited := fields.Int64(desired["maxSize"]); limited {
		after = min(after, most)
	}
	return now - after
}

// loses reports whether an update of a thing loses nodes or data; live is what was read
// of it. A field that is as desired loses nothing.
func loses(item state.Item, live map[string]any) bool {
	for field, lost := range losingFields()[item.Key.Kind] {
		if _, desired := item.Object[field]; desired && lost(item.Key, item.Object, live) {
			return true
		}
	}
	return false
}

// lost is what goes with an update that loses something. users counts who lives on what
// nodes need.
func lost(item state.Item, live map[string]any, users func() users) loss.DeletionImpact {
	switch item.Key.Kind {
	case "NodeGroup":
		n := int(lostNodes(item.Object, live))
		impact := fmt.Sprintf("the node group loses %d nodes", n)
		if n == 1 {
			impact = "the node group loses 1 node"
		}
		return loss.DeletionImpact{Impact: impact, Losses: loss.Counts{"Node": n}}
	case "LogGroup":
		return loss.DeletionImpact{
			Impact: fmt.Sprintf("what was logged more than %v days ago is deleted", item.Object["retentionDays"]),
			Losses: loss.Counts{"LogGroup": 1},
		}
	}
	out := users().removal(item.Key.Kind)
	out.UsedBy, out.AfterNodes = loss.FieldRef{}, false // It stays in use.
	return out
}

// lost is what goes with the update of a desired thing; zero for what is not updated, or
// loses nothing.
func (o *observation) lost(ctx context.Context, item, found state.Item) loss.DeletionImpact {
	live := o.live[item.Key].Object
	if found.ReadOnly != "" || item.ReadOnly != "" || found.Object == nil || state.Equal(item.Object, found.Object) || !loses(item, live) {
		return loss.DeletionImpact{}
	}
	return lost(item, live, func() users { return o.count(ctx) })
}

// count counts who lives on what the Cluster declares, once.
func (o *observation) count(ctx context.Context) users {
	if o.users == nil {
		now := o.countUsers(ctx, o.desired)
		o.users = &now
	}
	return *o.users
}
