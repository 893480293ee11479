package report

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/report/internal/forecast"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// alarms are what a reader needs before all else: what is wrong, what is held and what
// will go wrong.
func (r Report) alarms(v markup.Style) []section.Section {
	problems := section.Section{Title: fmt.Sprintf("Problems (%d)", max(r.Summary.Problems, len(r.Problems))), Color: "-"}
	for _, p := range r.Problems {
		problems.Lines = append(problems.Lines, withOrigin(v, origin(p.File, p.Line), p.Message))
	}
	guards, rest := r.guardLines(v)
	held, skipped := heldAndSkipped(rest)
	waiting := section.Section{Title: fmt.Sprintf("Held (%d)", objectCount(held)), Color: "~", Lines: holdLines(held, v)}
	only := section.Section{Title: fmt.Sprintf("Skipped (%d)", objectCount(skipped)), Color: "~", Lines: holdLines(skipped, v)}
	confirm := section.Section{Title: "To confirm all that waits", Color: "~", Lines: r.confirm(v)}
	foreign := section.Section{Title: fmt.Sprintf("Exists already, and is not managed by this Sync (%d)", len(r.foreign())), Color: "~"}
	for _, c := range r.foreign() {
		foreign.Lines = append(foreign.Lines, v.Name(nameWithOrigin(c.Object, c.File, c.Line))+": what is live is not shown; once this is applied, its other manager may revert it")
	}
	warnings, _ := r.noteParts(v)
	late := section.Section{Title: fmt.Sprintf("Not ready (%d)", len(r.NotReady)), Color: "bold"}
	for _, n := range r.NotReady {
		late.Lines = append(late.Lines, withOrigin(v, sanitize.Escape(n.Object.String()), n.Reason))
	}
	return []section.Section{problems, {Title: "Guards", Color: "-", Lines: guards}, waiting, only, confirm, foreign, warnings, late}
}

// guardLines are what the rules report that hold the changes or warn, with the things
// that they hold, and the holds of which no rule reports.
func (r Report) guardLines(v markup.Style) (out []string, rest []Hold) {
	rest = slices.Clone(r.Holds)
	for _, g := range r.GuardResults {
		var l string
		switch g.Result {
		case GuardWarning:
			l = v.Name(g.Rule) + " warns: " + v.Name(g.Text)
		case GuardHeld:
			l = v.Name(g.Rule) + " holds it: "
			at := slices.IndexFunc(rest, func(h Hold) bool { return g.Key != "" && h.Key == g.Key })
			if at < 0 {
				l += v.Name(g.Text)
				break
			}
			l += v.Name(rest[at].unnamed()) + ": " + markup.Names(objects(v, rest[at]))
			rest = slices.Delete(rest, at, at+1)
		case GuardOK:
			continue
		default:
			continue
		}
		out = append(out, l)
	}
	return out, rest
}

// unnamed is the reason without the rule's name, which stands before it.
func (h Hold) unnamed() string {
	switch {
	case h.Facts.Deletions != nil:
		return h.Facts.Deletions.Unnamed()
	case h.Facts.Quota != nil:
		return h.Facts.Quota.Unnamed()
	}
	return h.Reason
}

// heldAndSkipped divides reasons by what their rules do.
func heldAndSkipped(all []Hold) (held, skipped []Hold) {
	for _, h := range all {
		if h.Rule.Skips() {
			skipped = append(skipped, h)
		} else {
			held = append(held, h)
		}
	}
	return held, skipped
}

// objectCount is how many objects the reasons concern.
func objectCount(of []Hold) int {
	objects := map[Object]bool{}
	for _, h := range of {
		for _, o := range h.Objects {
			objects[o] = true
		}
	}
	return len(objects)
}

// holdLines have each reason with the things that it holds.
func holdLines(holds []Hold, v markup.Style) []string {
	var out []string
	for _, h := range holds {
		names := objects(v, h)
		if v.Stacks {
			out = append(out, v.Name(h.Reason))
			for _, n := range names {
				out = append(out, "  "+n)
			}
			continue
		}
		out = append(out, v.Name(h.Reason)+": "+markup.Names(names))
	}
	return out
}

// confirm is how what waits for a confirmation is let pass: all of it at once.
func (r Report) confirm(v markup.Style) []string {
	switch {
	case r.ConfirmationToken != "":
		return []string{v.Name(command(r.Sync, r.ConfirmationToken))}
	case slices.ContainsFunc(r.Holds, func(h Hold) bool { return h.Confirmable }):
		return []string{"once this is merged, status.confirmationToken of the Sync has the confirmation token"}
	}
	return nil
}

// guardsThatHold are the rules that hold the change, each once.
func (r Report) guardsThatHold(v markup.Style) []string {
	var out []string
	for _, g := range r.GuardResults {
		name := v.Short(g.Rule)
		if g.Result == GuardHeld && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

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

// driftedNodes are the nodes that are replaced with the change or without.
func (r Report) driftedNodes(o Options) section.Section {
	if r.Forecast == nil {
		return section.Section{}
	}
	return r.view(o, markup.PlainText()).Drifted(r.Forecast)
}
