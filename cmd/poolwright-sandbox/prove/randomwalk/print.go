package randomwalk

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteJSON writes the report as it is.
func WriteJSON(w io.Writer, r Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// WriteText writes what was measured, and what went wrong.
func WriteText(w io.Writer, r Report) error {
	fmt.Fprintf(w, "seed %d: %d operations and %d checks in %s\n", r.Seed, len(r.Operations), r.Checks, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second))
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SIZE\tFIRST QUARTER\tLAST QUARTER\tMOST\tPER HOUR\tSTANDARD ERROR")
	for i, t := range r.Trends {
		format := func(v float64) string { return fmt.Sprintf("%.1f", v) }
		if sizes()[i].bytes {
			format = func(v float64) string { return fmt.Sprintf("%.2f MiB", v/(1<<20)) }
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, format(t.First), format(t.Last), format(t.Most), format(t.PerHour), format(t.Error))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "%s: %s\n", v.Rule, v.Detail)
	}
	return nil
}
