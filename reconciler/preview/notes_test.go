package preview

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

func TestAdviceOnAFileIsNewWhereAnotherFileHadTheSame(t *testing.T) {
	a, heavier := poolItem("a", 1), poolItem("a", 2)
	old := func(l checked.Folder, files ...string) checked.Folder {
		for _, file := range files {
			l.Notes = append(l.Notes, plan.Note{Origin: state.Origin{File: file, Line: 3}, Text: "an old API of Karpenter"})
		}
		return l
	}
	out := steps{
		mergeBase: old(loaded(a), "a.yaml"), base: old(loaded(a), "a.yaml"), head: old(loaded(heavier), "a.yaml", "b.yaml"),
		live: liveItems(a), forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
			return &provision.Forecast{}, nil
		},
	}.preview(t)
	want := []report.Note{{File: "b.yaml", Line: 3, Severity: finding.Note, Text: "an old API of Karpenter"}}
	if diff := cmp.Diff(want, out.Notes); diff != "" {
		t.Errorf("advice (-want +got):\n%s", diff)
	}
	var text strings.Builder
	if err := out.Text(&text, report.Options{}); err != nil || !strings.Contains(text.String(), "\n  b.yaml:3: an old API") {
		t.Errorf("%v, not by its place alone: %s", err, text.String())
	}
}
