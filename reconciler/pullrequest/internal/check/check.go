// Package check makes of a pull request's plan what stands beside its commit: the state, and messages at the lines of
// files that they are about.
//
// It decides by the report's data alone, and repeats only what the report has, in which secrets are masked.
// Start reading at State.
package check

import (
	"slices"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// State is Failure where what would be merged has problems, ActionRequired where a guard would hold the merge, Neutral
// where a person should read the comment, and else Success.
func State(r report.Report) forge.State {
	switch {
	case len(r.Problems) > 0:
		return forge.Failure
	case slices.ContainsFunc(r.GuardResults, func(g report.GuardResult) bool { return g.Result == report.GuardHeld }):
		return forge.ActionRequired
	case r.Warns():
		return forge.Neutral
	}
	return forge.Success
}

// Forbids reports whether something forbids the merge: a problem in what would be
// merged, or a guard.
func Forbids(r report.Report) bool { return State(r).Basic() == forge.Failure }

// Annotations are the problems, what is held, the warnings and what could not be compared, in this order, where the file
// is known: the first forge.MaxAnnotations, each once, with texts cut to what a forge shows.
func Annotations(r report.Report) []forge.LineAnnotation {
	var out []forge.LineAnnotation
	add := func(level forge.AnnotationLevel, file string, line int, title, message string) {
		if file == "" || line < 1 || len(out) == forge.MaxAnnotations {
			return
		}
		a := forge.LineAnnotation{
			Path: file, Line: line, Level: level,
			Title: cut(sanitize.Text(title), forge.MaxAnnotationTitle), Message: cut(sanitize.Text(message), forge.MaxAnnotationMessage),
		}
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	for _, p := range r.Problems {
		add(forge.LevelFailure, p.File, p.Line, string(p.Code), p.Message)
	}
	for _, c := range r.Changes {
		if c.Reason != "" && !c.ReadOnly && !c.Skipped {
			add(forge.LevelWarning, c.File, c.Line, c.String(), c.Reason)
		}
	}
	for _, n := range r.Notes {
		if n.Severity == finding.Warning {
			add(forge.LevelWarning, n.File, n.Line, n.String(), n.Text)
		}
	}
	for _, u := range r.Unknown {
		add(forge.LevelNotice, u.File, u.Line, u.String(), u.Reason)
	}
	return out
}

// cut is a text of at most so many characters, copied where it is longer: what is kept must not keep all of it.
func cut(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n == most {
			if _, size := utf8.DecodeRuneInString(text[i:]); i+size < len(text) {
				return text[:i] + "…"
			}
			break
		}
	}
	return text
}
