package report

import (
	"strings"

	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// document is text that does not outgrow its limit.
type document struct {
	b     strings.Builder
	limit int
	// leftOut counts the parts without room.
	leftOut int
}

// add appends s if it fits.
func (d *document) add(s string) bool {
	if d.b.Len()+len(s) > d.limit {
		return false
	}
	d.b.WriteString(s)
	return true
}

// share is the n-th part of the room that is left.
func (d *document) share(n int) int { return (d.limit - d.b.Len()) / n }

// parts appends those for which there is room, each at most the n-th part of what is
// left, and counts those that are left out.
func (d *document) parts(n int, parts ...section.Section) {
	for _, p := range parts {
		if !p.Empty() && !d.add(p.Markdown(d.share(n))) {
			d.leftOut++
		}
	}
}
