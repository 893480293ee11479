package prove

import (
	"fmt"
	"io"
)

// writeCosts writes, for each scenario that launches instances, what EC2 would have billed for
// the run without a fault, and the most by which a case exceeded that.
func writeCosts(w io.Writer, r Report) {
	for _, base := range r.Results {
		if base.Case.Fault != noFault || base.Cost == 0 {
			continue
		}
		most := base
		for _, other := range r.Results {
			if other.Case.Scenario == base.Case.Scenario && other.Cost > most.Cost {
				most = other
			}
		}
		fmt.Fprintf(w, "EC2 would have billed $%.4f for %s", base.Cost, base.Case.Scenario)
		if most.Cost > base.Cost {
			fmt.Fprintf(w, ", and at most $%.4f more with a fault: %s", most.Cost-base.Cost, most.Case)
		}
		fmt.Fprintln(w, ".")
	}
}
