// Package markup escapes what comes from a repository or a cluster, for a terminal and for
// Markdown: on one line, of a bounded length, and in code where a forge
// would find markup, a mention or a reference in it.
//
// It refuses to trust any text that is given to it. Start reading at Style.
package markup

import (
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Style is how a format shows what is not ours: a name, a reason, a sentence.
type Style struct {
	// Name escapes a string for the format.
	Name func(string) string
	// USD is the dollar sign. In Markdown two of them can make a formula of
	// what is between.
	USD string
	// Stacks is true where the last cell of a row may go on in the row below.
	Stacks bool
	// At stands between a branch and a commit. What follows a plain one may be
	// taken for somebody's name.
	At string
}

// PlainText is the Style of a terminal.
func PlainText() Style {
	return Style{Name: func(s string) string { return Cut(sanitize.Escape(s), lineLimit) }, USD: "$", Stacks: true, At: "@"}
}

// Markdown is the Style of a comment on a forge: what is not ours stands in code.
func Markdown() Style {
	return Style{USD: `\$`, At: " at ", Name: func(s string) string {
		if c := Code(s, lineLimit); c != "" {
			return c
		}
		return "`?`"
	}}
}

// Short is a name in a table.
func (v Style) Short(s string) string { return v.Name(Clip(sanitize.Escape(s), nameWidth)) }

// Width is the length in characters from which a line is shortened.
const Width = 200

// lineLimit is the length of what a person must be able to read to its end.
const lineLimit = 5 * Width

// nameWidth is how much is shown of a name in a row of others.
const nameWidth = 40
