package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
)

// dashboards are the files of Grafana's dashboards.
func dashboards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("monitoring", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	return files
}

// The chart renders the same objects: .ci/chart compares them with the golden file.
func TestMonitoringRendersAsItsGoldenWithTheDashboardsFiles(t *testing.T) {
	var all bytes.Buffer
	left := dashboards(t)
	for _, r := range kustomized(t, "monitoring").Resources() {
		text := r.MustYaml()
		if r.GetKind() == "ConfigMap" {
			object := decode[corev1.ConfigMap](t, text)
			for name, content := range object.Data {
				file := filepath.Join("monitoring", "dashboards", name)
				raw, err := os.ReadFile(file)
				if err != nil || content != string(raw) {
					t.Errorf("ConfigMap %s does not hold %s: %v", object.Name, file, err)
				}
				left = slices.DeleteFunc(left, func(f string) bool { return f == file })
				object.Data[name] = "the content of " + name
			}
			raw, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		all.WriteString("---\n" + text)
	}
	if len(left) > 0 {
		t.Errorf("no ConfigMap has %v: config/monitoring/kustomization.yaml makes one for each", left)
	}
	golden.Compare(t, "testdata/monitoring.yaml", all.Bytes())
}

func TestTheComponentChangesTheJobAndNothingElse(t *testing.T) {
	overlay := t.TempDir()
	if err := os.CopyFS(filepath.Join(overlay, "monitoring"), os.DirFS("monitoring")); err != nil {
		t.Fatal(err)
	}
	content := "resources: [monitoring]\ncomponents: [monitoring/karpenter-job]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(folder string) string {
		text, err := kustomized(t, folder).AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := strings.Replace(run("monitoring"), "    port: metrics\n", "    port: metrics\n    relabelings:\n    - replacement: karpenter\n      targetLabel: job\n", 1)
	if got := run(overlay); got != want {
		t.Errorf("the component renders\n%s", got)
	}
}

// docs/metrics.md lists what an alert means, and what to do.
func TestThePageOfMetricsHasEachAlert(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^- alert: (\w+)$`).FindAllSubmatch(alerts(t), -1)
	for _, name := range names {
		if !bytes.Contains(page, []byte("\n| `"+string(name[1])+"` | ")) {
			t.Errorf("docs/metrics.md has no row for the alert %s", name[1])
		}
	}
	if rows := regexp.MustCompile("(?m)^\\| `[A-Z]\\w+` \\|").FindAll(page, -1); len(rows) != len(names) {
		t.Errorf("docs/metrics.md has %d alerts, and config/monitoring %d", len(rows), len(names))
	}
	for _, file := range dashboards(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct{ Title string }
		if err := json.Unmarshal(raw, &board); err != nil || !strings.Contains(string(page), "| "+strings.TrimPrefix(board.Title, "Poolwright / ")+" |") {
			t.Errorf("docs/metrics.md has no row for the dashboard %q: %v", board.Title, err)
		}
	}
}
