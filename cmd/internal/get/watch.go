package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

const (
	// watchInterval is the least time between two readings.
	watchInterval = 2 * time.Second
	// watchShare is how much longer the time between two readings is than a reading takes: a large
	// cluster is read less often.
	watchShare = 10
)

// changing are the columns that change by time alone.
var changing = []string{"Age", "Observed", "Merged"}

// follow prints the section, and then each row that comes, changes or goes, until the context ends.
func (f *flags) follow(ctx context.Context, env Environment, from reportSource, after func(time.Duration) <-chan time.Time) error {
	printer := printers.NewTablePrinter(printers.PrintOptions{Wide: f.output == "wide"})
	// It keeps the widths of columns from one table to the next.
	w := printers.GetNewTabWriter(env.Out)
	var before *metav1.Table
	readings := watched{reportSource: from, warnings: env.Err}
	for {
		start := env.Now()
		r, complete, err := readings.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if complete {
			now := r.tableOf(from.section, f.allNamespaces)
			if rows := changedRows(before, now); len(rows.Rows) > 0 {
				if err := errors.Join(printer.PrintObj(rows, w), w.Flush()); err != nil {
					return fmt.Errorf("writing the report: %w", err)
				}
			}
			before = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-after(max(watchInterval, watchShare*env.Now().Sub(start))):
		}
	}
}

// watched reads reports again and again, past failures.
type watched struct {
	reportSource
	warnings io.Writer
	// first is the first report; nil before it.
	first *Report
	// failing is whether the last reading failed.
	failing bool
}

// next reads a report. One that lacks what the first one has is not complete, of which it warns once. Without a first one, and where
// the credentials are refused, it fails.
func (w *watched) next(ctx context.Context) (r Report, complete bool, err error) {
	r, missing, err := w.report(ctx)
	switch {
	case ctx.Err() != nil:
		return r, false, ctx.Err()
	case err != nil && (w.first == nil || apierrors.IsUnauthorized(err)):
		return r, false, err
	case w.first == nil:
		w.first = &r
		return r, true, reportFirst(w.warnings, r, missing, w.reportSource)
	case err == nil:
		err = unreadSince(*w.first, r)
	}
	if err != nil && !w.failing {
		fmt.Fprintf(w.warnings, "Warning: %s; nothing is printed until that can be read again\n", sanitize.Text(err.Error()))
	}
	w.failing = err != nil
	return r, !w.failing, nil
}

// reportFirst names what the first reading lacks. A name that nothing has may come.
func reportFirst(w io.Writer, r Report, missing []string, from reportSource) error {
	if err := reportUnread(w, r, from); err != nil {
		return err
	}
	if len(missing) > 0 {
		fmt.Fprintf(w, "Warning: not found in %s: %s\n", from.section, strings.Join(missing, ", "))
	}
	return nil
}

// unreadSince is an error where a kind was not read that the first reading has: its objects are not gone.
func unreadSince(first, now Report) error {
	for _, u := range now.IncompleteKinds {
		was := slices.ContainsFunc(first.IncompleteKinds, func(before IncompleteKind) bool { return before.Kind == u.Kind })
		if u.Reason != tooMany && !was {
			return errors.New(u.Message)
		}
	}
	return nil
}

// changedRows are the rows that are new or differ by more than their age, and those that are gone, the
// last cell of which is Deleted.
func changedRows(before, now *metav1.Table) *metav1.Table {
	out := &metav1.Table{ColumnDefinitions: now.ColumnDefinitions}
	if before == nil {
		out.Rows = now.Rows
		return out
	}
	old, current := rowsByName(before), rowsByName(now)
	for _, row := range now.Rows {
		was, found := old[rowName(now, row)]
		if !found || !sameCells(now, was, row) {
			out.Rows = append(out.Rows, row)
		}
	}
	for _, row := range before.Rows {
		if _, found := current[rowName(before, row)]; !found {
			out.Rows = append(out.Rows, metav1.TableRow{Cells: deletedRow(before, row)})
		}
	}
	return out
}

// rowName identifies a row: by its name, and the namespace or the Sync where there is one. A node is the
// same before and after it registers: it is identified by its NodeClaim.
func rowName(t *metav1.Table, row metav1.TableRow) string {
	var name strings.Builder
	for i, c := range t.ColumnDefinitions {
		if c.Name == "NodeClaim" && row.Cells[i] != orDash("") {
			return fmt.Sprint(row.Cells[i])
		}
		if slices.Contains([]string{"Namespace", "Name", "Number", "Object", "Sync", "Owner"}, c.Name) {
			fmt.Fprint(&name, row.Cells[i], " ")
		}
	}
	return name.String()
}

func rowsByName(t *metav1.Table) map[string]metav1.TableRow {
	out := map[string]metav1.TableRow{}
	for _, row := range t.Rows {
		out[rowName(t, row)] = row
	}
	return out
}

func sameCells(t *metav1.Table, a, b metav1.TableRow) bool {
	for i, c := range t.ColumnDefinitions {
		if a.Cells[i] != b.Cells[i] && !slices.Contains(changing, c.Name) {
			return false
		}
	}
	return true
}

// deletedRow are the cells of a row that is there no more: its state, or where it has none its last cell
// that is always printed, is Deleted.
func deletedRow(t *metav1.Table, row metav1.TableRow) []any {
	cells := slices.Clone(row.Cells)
	last := 0
	for i, c := range t.ColumnDefinitions {
		if c.Name == "State" {
			last = i
			break
		}
		if c.Priority == 0 {
			last = i
		}
	}
	cells[last] = "Deleted"
	return cells
}
