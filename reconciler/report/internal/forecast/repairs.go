package forecast

import (
	"fmt"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// repairs are the unhealthy nodes that Karpenter replaces with or without the change.
func (v View) repairs(f *provision.Forecast) section.Section {
	out := section.Section{Title: fmt.Sprintf("Unhealthy nodes, which Karpenter repairs with or without this change (%d)", len(f.Repairs)), Color: "bold"}
	for _, r := range f.Repairs {
		what := v.Name(r.Condition)
		if r.Reason != "" {
			what += ", " + v.Name(r.Reason)
		}
		then := map[noderepair.BlockReason]string{
			"":                             "replaced from " + minute(r.From) + " on",
			noderepair.BlockedByAnnotation: "not replaced, because of its annotation karpenter.sh/do-not-repair",
			noderepair.BlockedByBackoff:    "not replaced before " + minute(r.Until) + ", because nodes that replaced others of the pool became unhealthy soon, too",
			noderepair.BlockedByThreshold:  "not replaced while more than 20 % of the pool's nodes are unhealthy",
			noderepair.BlockedByBudget:     "not replaced while the pool's budgets allow no node for the reason Unhealthy",
		}[r.Blocked]
		out.Lines = append(out.Lines, fmt.Sprintf("%s of pool %s (%s): %s", v.Name(r.Node), v.Name(r.Pool), what, then))
	}
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}
