package prove

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
)

// measured is when and where a run was.
type measured struct {
	at      time.Time
	machine string
}

func (m measured) String() string {
	return fmt.Sprintf("On %s, on %s", m.at.UTC().Format(time.DateOnly), m.machine)
}

// The titles of the sections of numbers.
const (
	coverageTitle = "Coverage"
	laterTitle    = "Later"
	controlsTitle = "Controls"
)

func heading(level int, title string) string {
	return fmt.Sprintf("\n%s %s\n", strings.Repeat("#", level), title)
}

// section is the section of a page with a title, up to the next one of its level or above; empty
// where there is none.
func section(page string, level int, title string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(page) {
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.Trim(fields[0], "#") == "" && len(fields[0]) <= level {
			inside = len(fields[0]) == level && fields[1] == title
		}
		if inside {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + strings.TrimRight(b.String(), "\n") + "\n"
}

// writeNumbers writes what this run was: coverage, controls and time. Of a run of a part of the
// cases it writes these behind the coverage of the page before, and of the controls those that it
// had; what the page has of other cases and controls stays.
func writeNumbers(b *strings.Builder, r Report, m measured, before string) {
	coverage, later, known := section(before, 2, coverageTitle), section(before, 3, laterTitle), section(before, 2, controlsTitle)
	switch {
	case coverage == "" || r.complete():
		writeCoverage(b, r, m)
	default:
		b.WriteString(strings.TrimSuffix(coverage, later))
		if len(r.Results) > 0 {
			writeLater(b, r, m, later)
		} else {
			b.WriteString(later)
		}
	}
	if len(r.Controls) == 0 && known != "" {
		b.WriteString(known)
		return
	}
	writeControls(b, r, m, known)
}

// complete reports whether every case was run.
func (r *Report) complete() bool {
	missing := slices.ContainsFunc(scenarios.All(), func(c scenarios.Scenario) bool { return r.recording(c.Name) == nil })
	return !missing && len(r.open(nil)) == 0
}

func writeCoverage(b *strings.Builder, r Report, m measured) {
	fmt.Fprintf(b, "%s\n%s: %s in %s.\n", heading(2, coverageTitle), m, r.count(), seconds(r.Seconds))
	fmt.Fprint(b, "\nOf each kind of request that was observed, by wire, these met a fault; a kind is a verb with a resource, an operation or a path.\n\n")
	fmt.Fprint(b, "| wire | kinds | `kill-before` | `kill-after` | `drop` | of all three |\n|---|---|---|---|---|---|\n")
	for _, c := range r.wireCoverages() {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %s |\n", c.wire, c.kinds, c.reached[0], c.reached[1], c.reached[2], share(c.sum(), len(perRequest)*c.kinds))
	}
	fmt.Fprint(b, "\nBy scenario, points are requests that are distinct by wire, verb, kind and namespace. Each fault happens to one that changes something ")
	fmt.Fprint(b, "in each scenario, and to one that reads in the first scenario that reaches it. A request that did not come in the case's own run, because ")
	fmt.Fprint(b, "goroutines took another order, is not reached.\n\n")
	writeCases(b, r, true)
	var missing []string
	for _, c := range scenarios.All() {
		if r.recording(c.Name) == nil {
			missing = append(missing, fmt.Sprintf("- `%s` was not recorded, so it has no cases here", c.Name))
		}
	}
	writeWrong(b, r, missing...)
	if left := len(r.open(nil)); left > 0 {
		fmt.Fprintf(b, "\nThis run was ended before %d further cases.\n", left)
	}
	var costs strings.Builder
	if writeCosts(&costs, r); costs.Len() > 0 {
		fmt.Fprintf(b, "\n%s", costs.String())
	}
}

// writeLater writes the cases that were run after the last run of all, with those of earlier runs
// that the page has.
func writeLater(b *strings.Builder, r Report, m measured, before string) {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s in %s.\n\n", m, r.count(), seconds(r.Seconds))
	writeCases(&text, r, false)
	writeWrong(&text, r)
	fmt.Fprintf(b, "%s\nScenarios and faults that came later, or were run again.\n", heading(3, laterTitle))
	writePartialRuns(b, merged(partialRuns(before), partialRuns(text.String())[0], caseKey, knownCase))
}

// writeCases writes how many cases of each scenario and fault there are, and how many were run; all has
// it write those of which none was.
func writeCases(b *strings.Builder, r Report, all bool) {
	fmt.Fprint(b, "| scenario | fault | points | run | reached | violated or failed |\n|---|---|---|---|---|---|\n")
	for _, c := range r.coverages() {
		if all || c.run > 0 {
			fmt.Fprintf(b, "| `%s` | `%s` | %d | %d | %d | %d |\n", c.scenario, c.fault, c.observed, c.run, c.reached, c.wrong)
		}
	}
}

// writeWrong lists what was violated or could not be run, and what is missing.
func writeWrong(b *strings.Builder, r Report, missing ...string) {
	var lines []string
	for _, result := range r.Results {
		if n := len(result.Violations); n > 0 {
			lines = append(lines, fmt.Sprintf("- `%s` violates `%s` (violations: %d): %s", result.Case, result.Violations[0].Rule, n, result.Violations[0].Detail))
		}
		if result.Outcome == Failed {
			lines = append(lines, fmt.Sprintf("- `%s` could not be run: %s", result.Case, result.Error))
		}
	}
	if lines = append(lines, missing...); len(lines) > 0 {
		fmt.Fprintf(b, "\nWhat is wrong or missing:\n\n%s\n", strings.Join(lines, "\n"))
	}
}

// writeControls writes the controls of this run, with those of earlier runs that the page has.
func writeControls(b *strings.Builder, r Report, m measured, before string) {
	fmt.Fprint(b, heading(2, controlsTitle))
	if len(r.Controls) == 0 {
		fmt.Fprint(b, "\nThis run had none.\n")
		return
	}
	var text strings.Builder
	found, total := 0, 0.0
	for _, c := range r.Controls {
		total += c.Seconds
		if c.Found {
			found++
		}
	}
	fmt.Fprintf(&text, "%s: %d controls (%d found, %d not found) in %s.\n", m, len(r.Controls), found, len(r.Controls)-found, seconds(total))
	fmt.Fprint(&text, "\n| switched off | what the product does otherwise | found | by |\n|---|---|---|---|\n")
	for _, c := range r.Controls {
		by := "none"
		if len(c.By) > 0 {
			by = "`" + c.By[0] + "`"
		}
		if len(c.By) > 1 {
			by += fmt.Sprintf(" and %d more", len(c.By)-1)
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", c.Name, c.Summary, map[bool]string{true: "yes", false: "**no**"}[c.Found], by)
	}
	writePartialRuns(b, merged(partialRuns(before), partialRuns(text.String())[0], controlKey, knownControl))
}
