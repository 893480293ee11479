package check

import "fmt"

// Status is the outcome of one check.
type Status string

// The values of Status.
const (
	// OK is what works.
	OK Status = "ok"
	// Warning is what works, and may not work for long or as intended.
	Warning Status = "warning"
	// Failed is what does not work.
	Failed Status = "failed"
	// Skipped is what was not checked.
	Skipped Status = "skipped"
)

// Result is the outcome of one check of one object.
type Result struct {
	// Name is the check's.
	Name string `json:"name"`
	// Object is what was checked, such as "Sync dev"; empty where the check is of one thing.
	Object string `json:"object,omitempty"`
	Status Status `json:"status"`
	// Message is what was found.
	Message string `json:"message"`
	// Remedy is what a person can do about it; empty where there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

func ok(format string, values ...any) Result {
	return Result{Status: OK, Message: fmt.Sprintf(format, values...)}
}

func warning(remedy, format string, values ...any) Result {
	return Result{Status: Warning, Message: fmt.Sprintf(format, values...), Remedy: remedy}
}

func failed(remedy, format string, values ...any) Result {
	return Result{Status: Failed, Message: fmt.Sprintf(format, values...), Remedy: remedy}
}

func skipped(message, remedy string) Result {
	return Result{Status: Skipped, Message: message, Remedy: remedy}
}

// one is the list of one result.
func one(r Result) []Result { return []Result{r} }
