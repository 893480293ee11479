package gpulint

import (
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// linter collects what the checks find in a repository.
type linter struct {
	*repository
	findings []Finding
}

// problem reports what cannot work, by the path of the field; an empty path is the
// object.
func (c *linter) problem(item state.Item, path string, code finding.Code, format string, args ...any) {
	c.report(item, path, false, finding.New(code, format, args...))
}

// advise reports what works, and otherwise than may be meant.
func (c *linter) advise(item state.Item, path string, code finding.Code, format string, args ...any) {
	c.report(item, path, true, finding.New(code, format, args...))
}

func (c *linter) report(item state.Item, path string, advice bool, f finding.Finding) {
	text := f.Text
	if path != "" {
		text = path + ": " + text
	}
	found := lint.Diagnostic{Key: item.Key, Origin: lint.Position(c.documents, item, path), Code: f.Code, Facts: f.Facts, Text: text, Field: path, Detail: f.Text}
	c.findings = append(c.findings, Finding{found, advice})
}

// Finding is one thing that is wrong, or may have another effect than it seems to. Its Text names
// the field, what happens and the remedy.
type Finding struct {
	lint.Diagnostic
	// Advice is true for what works, and otherwise, or at a higher price, than its author may assume;
	// false for what cannot work.
	Advice bool
}
