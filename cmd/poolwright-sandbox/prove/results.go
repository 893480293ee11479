package prove

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// record is a line of a file of results: that of a case, or of a control.
type record struct {
	Result  *Result        `json:"result,omitempty"`
	Control *ControlResult `json:"control,omitempty"`
	// Seconds have passed since the line before, or since the run began, so that those of a run
	// that is interrupted are not lost.
	Seconds float64 `json:"seconds"`
}

// results is a file that keeps the results of a run that may be interrupted. The zero value
// keeps nothing.
type results struct {
	file *os.File
	now  func() time.Time
	// last is when the last line was written, or the run began.
	last time.Time
	// before is what the file had at first.
	before Report
	err    error
}

// openResults opens or makes the file, one JSON document for each result; none where the name is
// empty.
func openResults(name string, now func() time.Time) (*results, error) {
	if name == "" {
		return &results{}, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the results: %w", err)
	}
	out := &results{file: file, now: now, last: now()}
	for decoder := json.NewDecoder(file); ; {
		var r record
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, errors.Join(fmt.Errorf("reading the results in %s: %w", name, err), file.Close())
		}
		out.take(r)
	}
}

// take adds a record to what there was before. Of one case, the last result counts. The time is
// that of all cases, since a control has its own.
func (k *results) take(r record) {
	switch {
	case r.Result != nil:
		k.before.Seconds += r.Seconds
		k.before.Results = slices.DeleteFunc(k.before.Results, func(old Result) bool { return old.Case == r.Result.Case })
		k.before.Results = append(k.before.Results, *r.Result)
	case r.Control != nil:
		k.before.Controls = slices.DeleteFunc(k.before.Controls, func(old ControlResult) bool { return old.Name == r.Control.Name })
		k.before.Controls = append(k.before.Controls, *r.Control)
	}
}

// keep adds a record to the file.
func (k *results) keep(r record) {
	if k.file == nil || k.err != nil {
		return
	}
	now := k.now()
	r.Seconds, k.last = now.Sub(k.last).Seconds(), now
	k.err = json.NewEncoder(k.file).Encode(r)
}

// Close returns the first error of keeping as well.
func (k *results) Close() error {
	if k.file == nil {
		return nil
	}
	if err := errors.Join(k.err, k.file.Close()); err != nil {
		return fmt.Errorf("keeping the results: %w", err)
	}
	return nil
}
