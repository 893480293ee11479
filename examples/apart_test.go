package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared"
)

// Folders beside clusters/ hold what is applied by hand or by a Sync of its own.
func TestWhatIsNotSyncedIsWithoutMistakes(t *testing.T) {
	folders, err := filepath.Glob("*/*")
	if err != nil {
		t.Fatal(err)
	}
	var looked []string
	for _, folder := range folders {
		repository, name := filepath.Dir(folder), filepath.Base(folder)
		if !slices.Contains([]string{"workloads", "scaling", "monitoring"}, name) || repository == "testdata" {
			continue
		}
		looked = append(looked, folder)
		d, err := declared.Load(os.DirFS(repository), name, declared.Options{})
		if err != nil || len(d.Problems) > 0 || len(d.Set.Items()) == 0 {
			t.Errorf("%s: %d objects, %v, %v", folder, len(d.Set.Items()), err, d.Problems)
		}
	}
	want := []string{
		"altanova/workloads", "baseten/workloads", "piksel/workloads",
		"pingvas/monitoring", "pingvas/scaling", "pingvas/workloads", "timeslicing/workloads",
	}
	if diff := cmp.Diff(want, looked); diff != "" {
		t.Errorf("folders that were looked at (-want +got):\n%s", diff)
	}
}

// A dashboard is a text in a ConfigMap, which nobody else reads before Grafana does.
func TestDashboardsShowMetricsThatThereAre(t *testing.T) {
	d, err := declared.Load(os.DirFS("pingvas"), "monitoring", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile(`poolwright_\w+`)
	for _, item := range d.Set.Items() {
		data, _ := item.Object["data"].(map[string]any)
		for name, text := range data {
			var board struct {
				Panels []struct {
					Title   string
					Targets []struct{ Expr string }
				}
			}
			if err := json.Unmarshal([]byte(text.(string)), &board); err != nil || len(board.Panels) == 0 {
				t.Fatalf("%s holds %d panels: %v", name, len(board.Panels), err)
			}
			for _, panel := range board.Panels {
				if len(panel.Targets) == 0 || panel.Targets[0].Expr == "" {
					t.Errorf("panel %q asks for nothing", panel.Title)
				}
				for _, target := range panel.Targets {
					for _, metric := range ours.FindAllString(target.Expr, -1) {
						if !strings.Contains(string(page), "`"+metric+"`") {
							t.Errorf("panel %q asks for %s, which docs/metrics.md does not know", panel.Title, metric)
						}
					}
				}
			}
		}
	}
}
