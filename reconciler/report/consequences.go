package report

import (
	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// view is how the report's Forecast is written.
func (r Report) view(o Options, v markup.Style) forecast.View {
	return forecast.View{Style: v, Lines: section.Limit(o.Lines), HoursPerDay: o.HoursPerDay, Proposal: r.proposal(), Offline: r.offline()}
}

// consequences are what comes of the changes; none where nobody would have to read them.
func (r Report) consequences(o Options, v markup.Style) []section.Section {
	if r.Forecast == nil || r.idle() {
		return nil
	}
	return r.view(o, v).Sections(r.Forecast)
}

// driftedNodes are the nodes that are replaced with the step or without.
func (r Report) driftedNodes(o Options) section.Section {
	if r.Forecast == nil {
		return section.Section{}
	}
	return r.view(o, markup.Plain()).Drifted(r.Forecast)
}
