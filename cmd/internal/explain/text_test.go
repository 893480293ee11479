package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/causes"
)

var noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// planted are the causes that the tests of package causes find, by their names.
func planted(t *testing.T, file string) map[string][]causes.Cause {
	t.Helper()
	content, err := os.ReadFile("../../../reconciler/causes/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string][]causes.Cause
	if err := json.Unmarshal(content, &out); err != nil || len(out) == 0 {
		t.Fatalf("%d causes, %v", len(out), err)
	}
	return out
}

func TestEachPlantedCauseAsText(t *testing.T) {
	for _, file := range []string{"pods", "nodes", "pools"} {
		t.Run(file, func(t *testing.T) {
			var out strings.Builder
			all := planted(t, file+".json")
			for _, name := range slices.Sorted(maps.Keys(all)) {
				e := Explanation{Time: noon, Since: metav1.NewTime(noon.Add(-6 * time.Minute)), Object: "Pod/ml/train", Causes: all[name]}
				fmt.Fprintf(&out, "=== %s\n%s\n", name, e.text())
			}
			golden.Compare(t, "testdata/"+file+".golden", out.String())
		})
	}
}

func TestEveryReasonHasASentence(t *testing.T) {
	sentences := Explanation{}.sentences()
	for _, reason := range causes.Reasons() {
		if _, found := sentences[reason]; !found {
			t.Errorf("%s has no sentence", reason)
			continue
		}
		if text := (Explanation{}).Sentence(causes.Cause{Reason: reason, NodePool: "gpu", Object: "Node/n"}); strings.TrimSpace(text) == "" {
			t.Errorf("%s has an empty sentence", reason)
		}
	}
	if len(sentences) != len(causes.Reasons()) {
		t.Errorf("%d sentences for %d reasons", len(sentences), len(causes.Reasons()))
	}
}

func TestAHeldChangeIsReleasedByAConfirmationOrATime(t *testing.T) {
	for name, tt := range map[string]struct {
		rules []string
		want  string
	}{
		"rules that a confirmation releases": {[]string{"QuotaExceeded", "MaxNodesReplaced"}, "QuotaExceeded, MaxNodesReplaced until a confirmation"},
		"a time alone":                       {[]string{"HoldUntil"}, "HoldUntil until a time"},
		"both":                               {[]string{"HoldUntil", "QuotaExceeded"}, "QuotaExceeded until a confirmation and by HoldUntil until a time"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := heldBy(tt.rules); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestTextOfOthersCannotMoveTheCursor(t *testing.T) {
	hostile := "a\x1b[2Jb\nc\u202ed"
	e := Explanation{Time: noon, Since: noon, Object: hostile, Unknown: nil, Causes: []causes.Cause{
		{Reason: "LabelMismatch", NodePool: hostile, Requirement: &corev1.NodeSelectorRequirement{Key: hostile, Values: []string{hostile}}, Message: hostile, Changes: []causes.Remedy{{Command: hostile}}},
	}, NodePools: []NodePoolCauses{{Name: hostile}}}
	text := e.text()
	if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "b\nc") {
		t.Errorf("%q", text)
	}
}
