package report

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// origin is where in the repository something is declared, as state.Origin writes it.
func origin(file string, line int) string { return state.Origin{File: file, Line: line}.String() }

// nameWithOrigin names a thing and its place; a place alone where the thing is no object.
func nameWithOrigin(object Object, file string, line int) string {
	if object == (Object{}) {
		return origin(file, line)
	}
	out := sanitize.Escape(object.String())
	if at := origin(file, line); at != "" {
		out += " (" + at + ")"
	}
	return out
}

// withOrigin is a text after the thing or place of which it is true.
func withOrigin(v markup.Style, at, text string) string {
	if at == "" {
		return v.Name(text)
	}
	return v.Name(at) + ": " + v.Name(text)
}

// remedyWithOrigin is placed for a sentence that is what to do: a reader is to read it, and to
// copy from it.
func remedyWithOrigin(v markup.Style, at, text string) string {
	prose := ""
	if !v.Stacks {
		prose = markup.Prose(text)
	}
	if prose == "" || at == "" {
		return withOrigin(v, at, text)
	}
	return v.Name(at) + ": " + prose
}

// objects are the names of what is held.
func objects(v markup.Style, h Hold) []string {
	out := make([]string, 0, len(h.Objects))
	for _, obj := range h.Objects {
		out = append(out, v.Name(obj.String()))
	}
	return out
}

// unknownLines have each reason once, with the things that it concerns.
func unknownLines(list []Unknown, v markup.Style) []string {
	concerned := map[string][]Unknown{}
	for _, u := range list {
		concerned[u.Reason] = append(concerned[u.Reason], u)
	}
	mark := ""
	if v.Stacks {
		mark = "? "
	}
	var out []string
	for _, u := range list {
		all := concerned[u.Reason]
		delete(concerned, u.Reason)
		switch {
		case len(all) == 0: // Stated before.
		case len(all) == 1:
			out = append(out, mark+withOrigin(v, nameWithOrigin(u.Object, u.File, u.Line), u.Reason))
		case v.Stacks:
			out = append(out, fmt.Sprintf("%s%d objects: %s", mark, len(all), v.Name(u.Reason)))
			for _, one := range all {
				out = append(out, "    "+nameWithOrigin(one.Object, one.File, one.Line))
			}
		default:
			names := make([]string, 0, len(all))
			for _, one := range all {
				names = append(names, v.Name(nameWithOrigin(one.Object, one.File, one.Line)))
			}
			out = append(out, fmt.Sprintf("%d objects: %s: %s", len(all), v.Name(u.Reason), markup.Names(names)))
		}
	}
	return out
}
