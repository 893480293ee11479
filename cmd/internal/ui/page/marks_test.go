package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

func TestTheTimelineHasMarksOfWhatHappenedInItsWindow(t *testing.T) {
	of := func(window time.Duration) (out []string) {
		for _, row := range marksOf(night(), now(), window) {
			var at []string
			for _, m := range row.Marks {
				at = append(at, m.X+" "+m.Text)
			}
			out = append(out, fmt.Sprintf("%s %d: %s", row.Name, row.Count, strings.Join(at, "; ")))
		}
		return out
	}
	for window, want := range map[time.Duration][]string{
		time.Hour: {"Drift 1: 67% 13:42:11 ConfigMap/ml/settings"},
		6 * time.Hour: {
			"Applied 1: 59% 11:32:11 main@e15a32f", "Merged 1: 59% 11:31:11 #38",
			"Drift 2: 73% 12:22:11 NodePool.karpenter.sh/gpu by kubectl-edit; 95% 13:42:11 ConfigMap/ml/settings",
		},
		7 * 24 * time.Hour: {
			"Applied 1: 99% 11:32:11 main@e15a32f", "Merged 2: 47% Nov 22 20:02:11 #12; 99% 11:31:11 #38",
			"Drift 3: 83% Nov 25 08:02:11 aws Rule.events/SpotInterruption; 99% 12:22:11 NodePool.karpenter.sh/gpu by kubectl-edit, ConfigMap/ml/settings",
			"Interrupted 1: 83% Nov 25 11:02:11 gpu-spot: SpotInterrupted",
		},
	} {
		if diff := cmp.Diff(want, of(window)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", window, diff)
		}
	}
}

// The mark of several events has the time of the first, and the row that of the last.
func TestTheLatestMarkHasTheTimeOfTheLastEvent(t *testing.T) {
	h := history.History{Drift: []history.Drift{{Object: "NodePool.karpenter.sh/b", Time: ago(time.Second)}, {Object: "NodePool.karpenter.sh/a", Time: ago(45 * time.Second)}}}
	rows := marksOf(h, now(), time.Hour)
	if len(rows) != 1 || len(rows[0].Marks) != 1 {
		t.Fatalf("there are %+v, not one mark", rows)
	}
	if diff := cmp.Diff([]string{"14:02:10 NodePool.karpenter.sh/b", "14:01:26 NodePool.karpenter.sh/a, NodePool.karpenter.sh/b"}, []string{rows[0].Latest, rows[0].Text}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A night of drift is as many marks as can be distinguished, and no more names than a person reads.
func TestMarksAreBounded(t *testing.T) {
	var h history.History
	for i := range 10_000 {
		h.Drift = append(h.Drift, history.Drift{Object: fmt.Sprint("ConfigMap/a/", i), Time: ago(time.Duration(i) * time.Second), Managers: []owner.Manager{{Name: strings.Repeat("x", 5000)}}})
	}
	h.Applies = []history.Apply{{Revision: "main@sha1:" + commit, Time: ago(time.Second), Failed: 2}, {Time: ago(-time.Minute)}}
	rows := marksOf(h, now(), 6*time.Hour)
	if len(rows) != 2 || rows[0].Latest != "14:02:10 main@e15a32f, 2 failed" || rows[1].Count != 10_000 || len(rows[1].Marks) > markSlots || len(rows[1].Text) > 200_000 {
		t.Errorf("there are %d rows", len(rows))
	}
	last := rows[1].Marks[len(rows[1].Marks)-1]
	if !strings.HasSuffix(last.Text, " more") || last.X != "99%" {
		t.Errorf("the last mark is at %s: %.80s", last.X, last.Text)
	}
}

func TestWithoutAHistoryThereAreNoMarks(t *testing.T) {
	if rows := marksOf(history.History{}, now(), time.Hour); len(rows) > 0 {
		t.Errorf("there are %+v", rows)
	}
}
