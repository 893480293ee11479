package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// alarms are what a reader must know before all else: what is wrong, what is held and
// what will go wrong.
func (r Report) alarms(v style) []part {
	problems := part{title: fmt.Sprintf("Problems (%d)", max(r.Summary.Problems, len(r.Problems))), how: "-"}
	for _, p := range r.Problems {
		problems.lines = append(problems.lines, v.placed(place(p.File, p.Line), p.Message))
	}
	guards, rest := r.guardLines(v)
	waiting := part{how: "~", lines: holdLines(rest, v)}
	objects := map[Object]bool{}
	for _, h := range rest {
		for _, o := range h.Objects {
			objects[o] = true
		}
	}
	waiting.title = fmt.Sprintf("Held (%d)", len(objects))
	confirm := part{title: "To confirm all that waits", how: "~", lines: r.confirm(v)}
	foreign := part{title: fmt.Sprintf("Exists already, and is not ours (%d)", len(r.foreign())), how: "~"}
	for _, c := range r.foreign() {
		foreign.lines = append(foreign.lines, v.name(named(c.Object, c.File, c.Line))+": what is live is not shown; once this is applied, whoever made it may put it back")
	}
	warnings, _ := r.noteParts(v)
	late := part{title: fmt.Sprintf("Not ready (%d)", len(r.NotReady)), how: "bold"}
	for _, n := range r.NotReady {
		late.lines = append(late.lines, v.placed(sanitize.Escape(n.Object.String()), n.Reason))
	}
	return []part{problems, {title: "Guards", how: "-", lines: guards}, waiting, confirm, foreign, warnings, late}
}

// guardLines are what the rules report that hold the changes or warn, with the things
// that they hold, and the holds of which no rule reports.
func (r Report) guardLines(v style) (out []string, rest []Hold) {
	rest = slices.Clone(r.Holds)
	for _, g := range r.Guards {
		var l string
		switch g.Result {
		case "warning":
			l = v.name(g.rule()) + " warns: " + v.name(g.Text)
		case "held":
			l = v.name(g.rule()) + " holds it: "
			at := slices.IndexFunc(rest, func(h Hold) bool { return string(h.Rule) == g.Rule && h.Reason == g.Text })
			if at < 0 {
				l += v.name(g.unnamed(g.Text))
				break
			}
			l += v.name(g.unnamed(rest[at].Reason)) + ": " + enough(v.objects(rest[at]))
			rest = slices.Delete(rest, at, at+1)
		default:
			continue
		}
		out = append(out, l)
	}
	return out, rest
}

// unnamed is a reason without the rule's name, which is said before it.
func (g Guard) unnamed(reason string) string {
	return strings.ReplaceAll(reason, " ("+g.rule()+")", "")
}

// rule is the rule's name as a person reads it.
func (g Guard) rule() string { return hold.Rule(g.Rule).Text() }

// objects are the names of what is held.
func (v style) objects(h Hold) []string {
	out := make([]string, 0, len(h.Objects))
	for _, obj := range h.Objects {
		out = append(out, v.name(obj.String()))
	}
	return out
}

// placed is a text after the thing or place of which it is true.
func (v style) placed(at, text string) string {
	if at == "" {
		return v.name(text)
	}
	return v.name(at) + ": " + v.name(text)
}

// warned is placed for a sentence that is what to do: a reader is to read it, and to
// copy from it.
func (v style) warned(at, text string) string {
	told := ""
	if !v.stacks {
		told = prose(text)
	}
	if told == "" || at == "" {
		return v.placed(at, text)
	}
	return v.name(at) + ": " + told
}

// noteParts are the notes that warn, and the others that are not told as alarms.
func (r Report) noteParts(v style) (warnings, notes part) {
	of := func(list []Note, placed func(at, text string) string) []string {
		var out []string
		for _, n := range list {
			out = append(out, placed(named(n.Object, n.File, n.Line), n.Text))
		}
		return out
	}
	warned := min(r.Summary.Warnings, len(r.Notes))
	warnings = part{title: fmt.Sprintf("Warnings (%d)", warned), how: "~", lines: of(r.Notes[:warned], v.warned)}
	theirs := r.foreign()
	others := slices.DeleteFunc(slices.Clone(r.Notes[warned:]), func(n Note) bool {
		return n.NotOurs && slices.ContainsFunc(theirs, func(c Change) bool { return c.Object == n.Object })
	})
	notes = part{title: fmt.Sprintf("Notes (%d)", len(others)), how: "bold", lines: of(others, v.placed)}
	return warnings, notes
}

// holdLines say each reason with the things that it holds.
func holdLines(holds []Hold, v style) []string {
	var out []string
	for _, h := range holds {
		names := v.objects(h)
		if v.stacks {
			out = append(out, v.name(h.Reason))
			for _, n := range names {
				out = append(out, "  "+n)
			}
			continue
		}
		out = append(out, v.name(h.Reason)+": "+enough(names))
	}
	return out
}

// confirm is how what waits for a confirmation is let pass: all of it at once.
func (r Report) confirm(v style) []string {
	switch {
	case r.ConfirmationToken != "":
		return []string{v.name(command(r.Sync, r.ConfirmationToken))}
	case slices.ContainsFunc(r.Holds, func(h Hold) bool { return h.Confirmable }):
		return []string{"once this is merged, status.confirmationToken of the Sync has the confirmation token"}
	}
	return nil
}

// command is what a person types to confirm; without the name of a Sync, what its
// annotation must be.
func command(sync, token string) string {
	namespace, name, ok := strings.Cut(sync, "/")
	if !ok {
		return "poolwright.dev/confirm: " + token
	}
	return confirm.Command(namespace, name, token)
}

// noteSection are what else there is to know.
func (r Report) noteSection(v style) []part {
	_, notes := r.noteParts(v)
	if !v.stacks && len(notes.lines) > 0 {
		_, plain := r.noteParts(plainStyle())
		notes.lines, notes.folded = nil, plain.lines
	}
	return []part{notes}
}

// unknowns are what could not be compared, and what cannot be told of the rest.
func (r Report) unknowns(o Options, v style) []part {
	lost := part{title: fmt.Sprintf("Unknown, not compared (%d)", len(r.Unknown)), how: "?", lines: unknownLines(r.Unknown, v)}
	untold := part{how: "?"}
	if f := r.Forecast; f != nil && !r.idle() {
		untold.title = fmt.Sprintf("Not known (%d)", len(f.Unknown))
		for _, u := range f.Unknown {
			untold.lines = append(untold.lines, v.name(u.Text))
		}
		untold.lines = first(untold.lines, o.few())
	}
	return []part{lost, untold}
}

// unknownLines say each reason once, with the things that it concerns.
func unknownLines(list []Unknown, v style) []string {
	concerned := map[string][]Unknown{}
	for _, u := range list {
		concerned[u.Reason] = append(concerned[u.Reason], u)
	}
	mark := ""
	if v.stacks {
		mark = "? "
	}
	var out []string
	for _, u := range list {
		all := concerned[u.Reason]
		delete(concerned, u.Reason)
		switch {
		case len(all) == 0: // Said before.
		case len(all) == 1:
			out = append(out, mark+v.placed(named(u.Object, u.File, u.Line), u.Reason))
		case v.stacks:
			out = append(out, fmt.Sprintf("%s%d objects: %s", mark, len(all), v.name(u.Reason)))
			for _, one := range all {
				out = append(out, "    "+named(one.Object, one.File, one.Line))
			}
		default:
			names := make([]string, 0, len(all))
			for _, one := range all {
				names = append(names, v.name(named(one.Object, one.File, one.Line)))
			}
			out = append(out, fmt.Sprintf("%d objects: %s: %s", len(all), v.name(u.Reason), enough(names)))
		}
	}
	return out
}

// named names a thing and its place; a place alone where the thing is no object.
func named(object Object, file string, line int) string {
	if object == (Object{}) {
		return place(file, line)
	}
	out := sanitize.Escape(object.String())
	if at := place(file, line); at != "" {
		out += " (" + at + ")"
	}
	return out
}

// place is where in the repository something is declared, as state.Origin writes it.
func place(file string, line int) string { return state.Origin{File: file, Line: line}.String() }

// guardsThatHold are the rules that hold the step, each once.
func (r Report) guardsThatHold(v style) []string {
	var out []string
	for _, g := range r.Guards {
		name := v.short(g.rule())
		if g.Result == "held" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
