package plan

import "github.com/poolwright/poolwright/reconciler/state"

// Quota is what a target read of a quota.
type Quota struct {
	Key state.Key
	state.Quota
}

func isPool(key state.Key) bool { return key.Group == "karpenter.sh" && key.Kind == "NodePool" }
