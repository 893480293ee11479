package noderepair

import "time"

// Repair is an unhealthy node that Karpenter replaces, by its annotation and the budgets of its pool after the change.
type Repair struct {
	// Node and Pool are names, Condition is the type of the Node's condition for which it is replaced, and Reason
	// that condition's.
	Node      string `json:"node"`
	Pool      string `json:"pool"`
	Condition string `json:"condition"`
	Reason    string `json:"reason,omitempty"`
	// From is when the condition has lasted for its toleration: Karpenter replaces the node no earlier.
	From time.Time `json:"from"`
	// Blocked is why Karpenter does not replace it now; empty where nothing keeps it.
	Blocked BlockReason `json:"blocked,omitempty"`
	// Until is the end of the back-off by which it is blocked, and absent where another reason blocks it.
	Until time.Time `json:"until,omitzero"`
}

// BlockReason is what keeps Karpenter from the repair of a node.
type BlockReason string

const (
	// BlockedByAnnotation is where the annotation karpenter.sh/do-not-repair is on the node.
	BlockedByAnnotation BlockReason = "do-not-repair"
	// BlockedByBackoff is where nodes that replaced unhealthy ones of the pool became unhealthy soon, too.
	BlockedByBackoff BlockReason = "back-off"
	// BlockedByThreshold is where more than a fifth of the pool's nodes are unhealthy.
	BlockedByThreshold BlockReason = "unhealthy-threshold"
	// BlockedByBudget is where the pool's budgets allow no node for the reason Unhealthy now.
	BlockedByBudget BlockReason = "budget"
)
