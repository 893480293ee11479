package footer_test

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/footer"
)

func TestACommentIsSplitAtItsLastMarker(t *testing.T) {
	const mark = "\n" + footer.Marker + "\n"
	head := string(forge.NewMarker("plan", "team/nodes", "one")) + "\n"
	for name, tt := range map[string]struct{ comment, body, footer string }{
		"nothing":                  {},
		"a marker alone":           {head, "", ""},
		"a body":                   {head + "a\nb\n", "a\nb", ""},
		"a body and a footer":      {head + "a\n" + mark + "b\nc", "a", "b\nc"},
		"a footer alone":           {strings.TrimSuffix(head, "\n") + mark + "b", "", "b"},
		"a marker that is no line": {head + "a " + footer.Marker + "\nb", "a " + footer.Marker + "\nb", ""},
		"a marker in the body":     {head + "a" + mark + "b" + mark + "c", "a" + mark + "b", "c"},
	} {
		t.Run(name, func(t *testing.T) {
			if body, below := footer.Split(tt.comment); body != tt.body || below != tt.footer {
				t.Errorf("%q, %q", body, below)
			}
		})
	}
}
