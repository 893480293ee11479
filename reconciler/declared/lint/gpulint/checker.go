package gpulint

import (
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// linter collects what the checks find in a repository.
type linter struct {
	*repository
	findings []lint.Diagnostic
}

// problem reports what cannot work, by the path of the field; an empty path is the
// object.
func (c *linter) problem(item state.Item, path string, code finding.Code, format string, args ...any) {
	c.report(item, path, finding.Error, finding.New(code, format, args...))
}

// warn reports what works, and otherwise than may be meant.
func (c *linter) warn(item state.Item, path string, code finding.Code, format string, args ...any) {
	c.report(item, path, finding.Warning, finding.New(code, format, args...))
}

func (c *linter) report(item state.Item, path string, severity finding.Severity, f finding.Finding) {
	text := f.Text
	if path != "" {
		text = path + ": " + text
	}
	c.findings = append(c.findings, lint.Diagnostic{
		Key: item.Key, Severity: severity, Origin: lint.Position(c.documents, item, path), Code: f.Code, Facts: f.Facts, Text: text, Field: path, Detail: f.Text,
	})
}
