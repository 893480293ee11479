package prove

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
)

// partialRun is what a section of the page has of one run: when that was and what it had, the rows of
// its table, and what was wrong.
type partialRun struct {
	// heading is the line that begins with measured, without its end.
	heading string
	// columns are the two lines above the rows.
	columns []string
	rows    []string
	// wrong are the items of the list below the table.
	wrong []string
}

// measuredLine finds where a run begins in a line: measured, as it is written.
var measuredLine = regexp.MustCompile(`On \d{4}-\d{2}-\d{2}, on .+: \d+ `)

// partialRuns are the runs of a section, in its order. Text before the first one is not theirs.
func partialRuns(text string) []partialRun {
	var out []partialRun
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if at := measuredLine.FindStringIndex(line); at != nil && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "- ") {
			out = append(out, partialRun{heading: line[at[0]:]})
			continue
		}
		if len(out) == 0 {
			continue
		}
		run := &out[len(out)-1]
		switch {
		case strings.HasPrefix(line, "| `"):
			run.rows = append(run.rows, line)
		case strings.HasPrefix(line, "|"):
			run.columns = append(run.columns, line)
		case strings.HasPrefix(line, "- "):
			run.wrong = append(run.wrong, line)
		}
	}
	return out
}

// merged are the runs before and the one after them. A row that a later run has, or that is of
// nothing that there is any more, is gone from earlier ones, with what was wrong with it; a run
// without rows is gone.
func merged(before []partialRun, after partialRun, keyOf func(row string) string, known func(key string) bool) []partialRun {
	taken := map[string]bool{}
	for _, row := range after.rows {
		taken[keyOf(row)] = true
	}
	out := []partialRun{after}
	for _, run := range slices.Backward(before) {
		stays := func(line string) bool { return !taken[keyOf(line)] && known(keyOf(line)) }
		run.rows = slices.DeleteFunc(slices.Clone(run.rows), func(row string) bool { return !stays(row) })
		run.wrong = slices.DeleteFunc(slices.Clone(run.wrong), func(item string) bool { return !stays(item) })
		for _, row := range run.rows {
			taken[keyOf(row)] = true
		}
		if len(run.rows) > 0 {
			out = append(out, run)
		}
	}
	slices.Reverse(out)
	return out
}

func writePartialRuns(b *strings.Builder, all []partialRun) {
	for _, run := range all {
		fmt.Fprintf(b, "\n%s\n\n", run.heading)
		for _, line := range slices.Concat(run.columns, run.rows) {
			fmt.Fprintln(b, line)
		}
		if len(run.wrong) > 0 {
			fmt.Fprintf(b, "\nWhat is wrong or missing:\n\n%s\n", strings.Join(run.wrong, "\n"))
		}
	}
}

// quoted are the texts between backquotes, in order.
func quoted(line string) []string {
	var out []string
	for n, text := range strings.Split(line, "`") {
		if n%2 == 1 {
			out = append(out, text)
		}
	}
	return out
}

// caseKey is SCENARIO/FAULT of a row of cases, or of what was wrong with a case.
func caseKey(line string) string {
	names := quoted(line)
	if strings.HasPrefix(line, "| ") && len(names) > 1 {
		return names[0] + "/" + names[1]
	}
	if len(names) == 0 {
		return ""
	}
	parts := strings.SplitN(names[0], "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// knownCase reports whether there are the scenario and the fault of a key.
func knownCase(key string) bool {
	scenario, fault, _ := strings.Cut(key, "/")
	ofScenario, ofFault := placeOf(proveCase{Scenario: scenario, Fault: fault})
	return ofScenario >= 0 && (ofFault >= 0 || fault == noFault)
}

// controlKey is the name of a row's control.
func controlKey(row string) string {
	if names := quoted(row); len(names) > 0 {
		return names[0]
	}
	return ""
}

func knownControl(key string) bool { return slices.Contains(controls.Names(), key) }
