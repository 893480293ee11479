package report

import (
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Content identifies what the report says apart from when it was observed: while it
// stays the same, there is nothing new to tell.
func (r Report) Content() string {
	if r.Binding != nil {
		b := *r.Binding
		b.Observed = time.Time{}
		r.Binding = &b
	}
	var text strings.Builder
	if err := r.Markdown(&text, Options{Limit: int(^uint(0) >> 1)}); err != nil {
		return ""
	}
	return state.Hash(text.String())[:12]
}
