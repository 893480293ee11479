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
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared"
)

// Folders beside clusters/ hold what is applied by hand or by a Sync of its own.
func TestWhatIsNotSyncedIsWithoutProblems(t *testing.T) {
	folders, err := filepath.Glob("*/*")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, folder := range folders {
		repository, name := filepath.Dir(folder), filepath.Base(folder)
		if !slices.Contains([]string{"workloads", "scaling", "monitoring"}, name) || repository == "testdata" {
			continue
		}
		read = append(read, folder)
		d, err := declared.Load(os.DirFS(repository), name, declared.Options{})
		if err != nil || len(d.Problems) > 0 || len(d.Set.Items()) == 0 {
			t.Errorf("%s: %d objects, %v, %v", folder, len(d.Set.Items()), err, d.Problems)
		}
	}
	want := []string{
		"altanova/workloads", "baseten/workloads", "piksel/workloads",
		"pingvas/monitoring", "pingvas/scaling", "pingvas/workloads", "timeslicing/workloads",
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("folders that were looked at (-want +got):\n%s", diff)
	}
}

// kubectl applies the files of a folder by name, each from its beginning.
func TestWorkloadsComeAfterTheirNamespace(t *testing.T) {
	files, err := filepath.Glob("*/workloads/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v, %v", files, err)
	}
	there := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		example := filepath.Dir(file)
		for one := range strings.SplitSeq(string(text), "\n---\n") {
			var object struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			if err := yaml.Unmarshal([]byte(one), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if namespace := object.Metadata.Namespace; namespace != "" && namespace != "default" && !there[example+"/"+namespace] {
				t.Errorf("%s: %s %s comes before its namespace %s", file, object.Kind, object.Metadata.Name, namespace)
			}
			if object.Kind == "Namespace" {
				there[example+"/"+object.Metadata.Name] = true
			}
		}
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
