package plan

import (
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// HoldSyncChanges holds each update for which relaxed names fields, those that
// are less strict in what is desired than in what is live, until confirmation quotes the
// reason's token. The token stands for the desired content of the thing and
// for the spec that is live: what is made stricter since requires another. Drift is
// held as well: what a person made stricter by hand stays until a person decides
// otherwise.
func (p Plan) HoldSyncChanges(confirmation string, relaxed func(Change) []string) Plan {
	return p.holdUnless(confirmation, func(c Change) hold.Reasons {
		if c.Action != Update {
			return nil
		}
		fields := relaxed(c)
		if len(fields) == 0 {
			return nil
		}
		of := subjectOf(c)
		of.Before = c.Before.Object["spec"]
		token := &hold.Token{Purpose: "guard." + c.Key.Name, Digest: confirm.Digest(of)}
		return hold.Reasons{{Rule: hold.SyncChangeHeld, Facts: hold.Facts{Object: c.Key.String(), Fields: fields}, Token: token}}
	})
}

// RelaxesSync reports whether HoldSyncChanges holds the change.
func (c Change) RelaxesSync() bool { return c.Hold.Has(hold.SyncChangeHeld) }
