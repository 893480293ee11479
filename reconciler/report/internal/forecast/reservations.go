package forecast

import (
	"fmt"
	"time"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// reservationEnds are the capacity reservations that end, with what becomes of the nodes in them.
func (v View) reservationEnds(f *provision.Forecast) section.Section {
	out := section.Section{Title: fmt.Sprintf("Capacity reservations with an end date (%d)", len(f.ReservationEnds)), Color: "bold"}
	for _, e := range f.ReservationEnds {
		what, then := "On-Demand Capacity Reservation", "its instances go on as On-Demand Instances, which pools that allow only reserved capacity replace"
		if !e.NodesLeave.IsZero() {
			what = "Capacity Block"
			then = fmt.Sprintf("Karpenter launches no node into it from %s on", minute(e.NodesLeave))
			if e.Nodes > 0 {
				then = fmt.Sprintf("Karpenter deletes its %s at %s, %.0f minutes before", plural.Count(e.Nodes, "node"), minute(e.NodesLeave), e.End.Sub(e.NodesLeave).Minutes())
			}
		}
		out.Lines = append(out.Lines, fmt.Sprintf("%s %s of %s %s ends %s: %s", what, v.Name(e.ID), map[bool]string{true: "pool", false: "pools"}[len(e.Pools) == 1], markup.Names(each(e.Pools, v.Name)), minute(e.End), then))
	}
	out.Lines = section.First(out.Lines, v.Lines.Few())
	return out
}

// minute writes a time.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }
