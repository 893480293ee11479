package prove

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/promises"
)

// writePromises writes what is promised, and what proves it.
func writePromises(b *strings.Builder) {
	fmt.Fprint(b, "\n## Promises\n\nEach fault that is promised to be outlived, each sentence of SECURITY.md and each invariant of DESIGN.md, with the cases ")
	fmt.Fprint(b, "(as `--run` takes them) or Go tests that prove it, and the control that breaks one of them. A sentence stands here by its beginning.\n")
	for _, table := range promises.All() {
		fmt.Fprintf(b, "\n### %s\n\n| promise | proved by | control |\n|---|---|---|\n", table.Title)
		for i, p := range table.Promises {
			fmt.Fprintf(b, "| %s | %s | %s |\n", promised(i+1, p), provedBy(p), controlOf(p))
		}
	}
}

// promised is the promise in one cell: a fault with its number, or sentences.
func promised(n int, p promises.Promise) string {
	var parts []string
	switch {
	case p.Fault != "":
		parts = append(parts, fmt.Sprintf("%d. %s: %s.", n, p.Area, p.Fault))
	default:
		var beginnings []string
		for _, s := range p.Sentences {
			beginnings = append(beginnings, "“"+s+"…”")
		}
		parts = append(parts, strings.Join(beginnings, ", ")+".")
	}
	if p.Outcome != "" {
		parts = append(parts, p.Outcome+".")
	}
	if p.NotPromised != "" {
		parts = append(parts, "**Not promised:** "+p.NotPromised)
	}
	return cell(strings.Join(parts, " "))
}

func provedBy(p promises.Promise) string {
	var parts []string
	for _, c := range p.Cases {
		parts = append(parts, "`"+c+"`")
	}
	for _, t := range p.Tests {
		parts = append(parts, "`"+t+"`")
	}
	return cell(strings.Join(parts, ", "))
}

func controlOf(p promises.Promise) string {
	if p.Control == "" {
		return ""
	}
	return "`" + p.Control + "`"
}

// cell keeps text within its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// uncontrolled are the promises of the fault matrix that no control breaks, by number.
func uncontrolled() []int {
	var out []int
	for i, p := range promises.All()[0].Promises {
		if p.Control == "" && p.Outcome != "" {
			out = append(out, i+1)
		}
	}
	return slices.Clip(out)
}
