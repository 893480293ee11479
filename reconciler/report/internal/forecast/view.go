// Package forecast writes what a provision.Forecast predicts, for nodes, pods and money, as
// sections of a report and phrases of a headline.
//
// It refuses to predict anything, and shows no secret: Sanitized masks them first. Start
// reading at View.
package forecast

import (
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// View is how a Forecast is written.
type View struct {
	markup.Style
	// Lines is how much is shown of each list.
	Lines section.Limit
	// HoursPerDay is the use for which a month's cost is reported, 24 when zero.
	HoursPerDay float64
	// Proposal is true for the Forecast of a change, whose drift is shown apart.
	Proposal bool
	// Offline is true where no cluster was read, so that nobody can count its nodes.
	Offline bool
}

// plainText is the View of a list of details, which is plain text in any Style.
func plainText() View { return View{Style: markup.PlainText()} }
