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
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
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
	fmt.Fprintln(table, "SCENARIO\tFAULT\tPOINTS\tRUN\tREACHED\tWRONG")
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

// WriteMarkdown writes docs/proof.md. Before is the page as it was: a section of numbers that the
// report does not have as a whole stays as it is there.
func WriteMarkdown(w io.Writer, r Report, at time.Time, before string) error {
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
	fmt.Fprint(&b, "\n## Rules\n\nEach trace is checked for each of them.\n\n| rule | promise |\n|---|---|\n")
	for _, rule := range oracle.Rules() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", rule.Name, rule.Promise)
	}
	writePromises(&b)
	writeNumbers(&b, r, measured{at, fmt.Sprintf("%s with %d CPUs", runtime.GOOS, runtime.NumCPU())}, before)
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
