package gpulint

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
)

// linter collects what the checks find in a repository.
type linter struct {
	*repository
	findings []Finding
}

// problem reports what cannot work, by the path of the field; an empty path is the
// object.
func (c *linter) problem(item state.Item, path, format string, args ...any) {
	c.report(item, path, false, fmt.Sprintf(format, args...))
}

// advise reports what works, and otherwise than may be meant.
func (c *linter) advise(item state.Item, path, format string, args ...any) {
	c.report(item, path, true, fmt.Sprintf(format, args...))
}

func (c *linter) report(item state.Item, path string, advice bool, detail string) {
	text := detail
	if path != "" {
		text = path + ": " + detail
	}
	found := lint.Finding{Key: item.Key, Origin: lint.At(c.documents, item, path), Text: text, Field: path, Detail: detail}
	c.findings = append(c.findings, Finding{found, advice})
}

// Finding is one thing that is wrong, or may have another effect than it seems to. Its Text names
// the field, what happens and the remedy.
type Finding struct {
	lint.Finding
	// Advice is true for what works, and otherwise, or at a higher price, than its author may assume;
	// false for what cannot work.
	Advice bool
}
