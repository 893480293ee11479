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

// mistake reports what cannot work, by the path of the field; an empty path is the
// object.
func (c *linter) mistake(item state.Item, path, format string, args ...any) {
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
	c.findings = append(c.findings, Finding{Key: item.Key, Origin: lint.At(c.documents, item, path), Text: text, Field: path, Detail: detail, Advice: advice})
}

// Finding is one thing that is wrong, or may have another effect than it seems to.
type Finding struct {
	// Key is the object's.
	Key state.Key
	// Origin is the place of the field.
	Origin state.Origin
	// Text names the field, what happens and the remedy.
	Text string
	// Field and Detail are as state.Problem has them.
	Field, Detail string
	// Advice is true for what works, and otherwise or dearer than its author may assume;
	// false for what cannot work.
	Advice bool
}

// Problem is the finding as one of lint's.
func (f Finding) Problem() state.Problem {
	return state.Problem{Origin: f.Origin, Message: f.Key.String() + ": " + f.Text, Object: f.Key, Field: f.Field, Detail: f.Detail}
}
