package prove

import (
	_ "embed" // head.md
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
	"github.com/poolwright/poolwright/provision/sandbox/history/oracle"
)

// List is the text of what can be run, and what is checked.
func List() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Scenarios:")
	for _, s := range scenarios.All() {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Summary)
	}
	fmt.Fprintln(w, "Faults:")
	for _, f := range faultKinds() {
		fmt.Fprintf(w, "  %s\t%s\n", f.name, f.summary)
	}
	fmt.Fprintln(w, "Rules:")
	for _, r := range oracle.Rules() {
		fmt.Fprintf(w, "  %s\t%s\n", r.Name, r.Promise)
	}
	fmt.Fprintln(w, "Controls:")
	for _, c := range controls.All() {
		fmt.Fprintf(w, "  %s\t%s\n", c.Name, c.Summary)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// WriteJSON writes the report as it is.
func WriteJSON(w io.Writer, r Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteText writes the table of coverage and what went wrong.
func WriteText(w io.Writer, r Report) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tFAULT\tPOINTS\tPLAYED\tREACHED\tWRONG")
	for _, c := range r.coverages() {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", c.scenario, c.fault, c.observed, c.run, c.reached, c.wrong)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, result := range r.Results {
		if result.Outcome != Held {
			fmt.Fprintln(w, result.line())
		}
	}
	for _, c := range r.Controls {
		outcome := map[bool]string{true: "found", false: "NOT FOUND"}[c.Found]
		fmt.Fprintf(w, "without %s: %s %s\n", c.Name, outcome, strings.Join(c.By, "; "))
	}
	writeCosts(w, r)
	fmt.Fprintf(w, "%s in %s\n", r.count(), seconds(r.Seconds))
	return nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// WriteMarkdown writes docs/proof.md.
func WriteMarkdown(w io.Writer, r Report, at time.Time) error {
	var b strings.Builder
	fmt.Fprint(&b, proofHead)
	fmt.Fprint(&b, "\n## Scenarios\n\n| scenario | what happens |\n|---|---|\n")
	for _, s := range scenarios.All() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.Name, s.Summary)
	}
	fmt.Fprint(&b, "\n## Faults\n\n| fault | what happens to a request |\n|---|---|\n")
	for _, f := range faultKinds() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.name, f.summary)
	}
	fmt.Fprint(&b, "\n## Rules\n\nEach history is checked for each of them.\n\n| rule | promise |\n|---|---|\n")
	for _, rule := range oracle.Rules() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", rule.Name, rule.Promise)
	}
	writePromises(&b)
	writeNumbers(&b, r, fmt.Sprintf("%s with %d CPUs", runtime.GOOS, runtime.NumCPU()), at)
	_, err := io.WriteString(w, b.String())
	return err
}

func share(n, of int) string {
	return fmt.Sprintf("%d of %d, %.0f %%", n, of, 100*float64(n)/float64(max(1, of)))
}

// proofHead is the page above its tables.
//
//go:embed head.md
var proofHead string

// writeNumbers writes what this run was: coverage, controls and time.
func writeNumbers(b *strings.Builder, r Report, machine string, at time.Time) {
	fmt.Fprintf(b, "\n## Coverage\n\nOn %s, on %s: %s in %s.\n", at.UTC().Format(time.DateOnly), machine, r.count(), seconds(r.Seconds))
	fmt.Fprint(b, "\nOf each kind of request that was observed, by wire, these met a fault; a kind is a verb with a resource, an operation or a path.\n\n")
	fmt.Fprint(b, "| wire | kinds | `kill-before` | `kill-after` | `drop` | of all three |\n|---|---|---|---|---|---|\n")
	for _, c := range r.wireCoverages() {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %s |\n", c.wire, c.kinds, c.reached[0], c.reached[1], c.reached[2], share(c.sum(), len(perRequest)*c.kinds))
	}
	fmt.Fprint(b, "\nBy scenario, points are requests that are distinct by wire, verb, kind and namespace. Each fault happens to one that changes something ")
	fmt.Fprint(b, "in each scenario, and to one that reads in the first scenario that reaches it. A request that did not come in the case's own run, because ")
	fmt.Fprint(b, "goroutines took another order, is not reached.\n\n")
	fmt.Fprint(b, "| scenario | fault | points | run | reached | violated or failed |\n|---|---|---|---|---|---|\n")
	for _, c := range r.coverages() {
		fmt.Fprintf(b, "| `%s` | `%s` | %d | %d | %d | %d |\n", c.scenario, c.fault, c.observed, c.run, c.reached, c.wrong)
	}
	writeWrong(b, r)
	var costs strings.Builder
	if writeCosts(&costs, r); costs.Len() > 0 {
		fmt.Fprintf(b, "\n%s", costs.String())
	}
	if len(r.Controls) == 0 {
		fmt.Fprint(b, "\n## Controls\n\nThis run had none.\n")
		return
	}
	fmt.Fprint(b, "\n## Controls\n\n| switched off | what the product does otherwise | found | by |\n|---|---|---|---|\n")
	for _, c := range r.Controls {
		by := "none"
		if len(c.By) > 0 {
			by = "`" + c.By[0] + "`"
		}
		if len(c.By) > 1 {
			by += fmt.Sprintf(" and %d more", len(c.By)-1)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", c.Name, c.Summary, map[bool]string{true: "yes", false: "**no**"}[c.Found], by)
	}
}

// writeWrong lists what was violated or could not be run, and the scenarios without cases.
func writeWrong(b *strings.Builder, r Report) {
	var lines []string
	for _, result := range r.Results {
		if n := len(result.Violations); n > 0 {
			lines = append(lines, fmt.Sprintf("- `%s` violates `%s` (violations: %d): %s", result.Case, result.Violations[0].Rule, n, result.Violations[0].Detail))
		}
		if result.Outcome == Failed {
			lines = append(lines, fmt.Sprintf("- `%s` could not be run: %s", result.Case, result.Error))
		}
	}
	for _, c := range scenarios.All() {
		if r.recording(c.Name) == nil {
			lines = append(lines, fmt.Sprintf("- `%s` was not recorded, so it has no cases here", c.Name))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\nWhat is wrong or missing:\n\n%s\n", strings.Join(lines, "\n"))
	}
	if left := len(r.open(nil)); left > 0 {
		fmt.Fprintf(b, "\nThis run was ended before %d further cases.\n", left)
	}
}
