package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// A person who reads a plan believes that it is carried out.
func TestTheHeadOfAPlanStatesThatItsSyncAppliesNothing(t *testing.T) {
	var out strings.Builder
	for _, s := range []string{"", terminating, suspended, rolledBack, notFastForward, limitExceeded} {
		r := New(plan.Plan{Unchanged: 3}, nil)
		r.Sync, r.SyncState = "poolwright-system/dev", s
		for name, write := range map[string]func(*bytes.Buffer) error{
			"text":     func(b *bytes.Buffer) error { return r.Text(b, Options{}) },
			"markdown": func(b *bytes.Buffer) error { return r.Markdown(b, Options{}) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if line := r.stateLine(); (line == "") != (s == "") || !strings.Contains(b.String(), line) {
				t.Errorf("%s of %q: %s", name, s, b.String())
			}
			if name == "text" {
				out.WriteString("# " + s + "\n" + b.String())
			}
		}
	}
	golden.Compare(t, "testdata/syncstates.txt", []byte(out.String()))
}
