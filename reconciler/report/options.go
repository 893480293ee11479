package report

// Options shape what is printed. The zero value is ready to use.
type Options struct {
	// Color turns ANSI colours in text on. Whether the reader is a terminal is for the
	// caller to find out.
	Color bool
	// Lines is how many lines are shown of one object, 40 when zero; all when
	// negative. Of the consequences it bounds each list that Markdown folds; of
	// those that everybody reads the first 8 entries are shown, or fewer where
	// Lines sets it. On a terminal nothing folds: 8 of every list when zero. How many more
	// there are is always stated.
	Lines int
	// HoursPerDay is the use for which a month's cost is reported, 24 when zero.
	HoursPerDay float64
	// Limit is the length of a Markdown document in bytes, 65,536 when zero:
	// what the strictest forge takes for a comment.
	Limit int
}
