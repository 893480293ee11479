package recording_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
)

// table is what a page has of the recording, as Markdown.
func table(t *testing.T) string {
	t.Helper()
	runs, ours := served(t), configs(t)
	var out strings.Builder
	out.WriteString("| config | resource | devices | a request for two |\n|---|---|---:|---|\n")
	for _, c := range []struct{ config, described string }{
		{"whole", "neither `timeSlicing` nor `mps`"},
		{"sliced", "`timeSlicing` with `replicas: %d`"},
		{"sliced-one", "`timeSlicing` with `replicas: %d`, `failRequestsGreaterThanOne`"},
		{"sliced-renamed", "`timeSlicing` with `replicas: %d`, `renameByDefault`"},
		{"mps", "`mps` with `replicas: %d`"},
		{"mps-renamed", "`mps` with `replicas: %d`, `renameByDefault`"},
	} {
		resource := runs[c.config].Resources[0]
		described := c.described
		if strings.Contains(described, "%d") {
			described = fmt.Sprintf(described, ours[c.config].Replicas)
		}
		two := "none to give"
		if refusal, ok := resource.Refused(2); ok {
			two = "granted"
			if refusal != "" {
				two = "refused"
			}
		}
		fmt.Fprintf(&out, "| %s | `%s` | %d | %s |\n", described, resource.Name, len(resource.Devices), two)
	}
	return out.String()
}

func TestThePageHasWhatWasRecorded(t *testing.T) {
	page := filepath.Join("..", "..", "..", "docs", "gpu-sharing.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- begin: recording -->\n")
	has, after, ended := strings.Cut(rest, "<!-- end: recording -->")
	if !ok || !ended {
		t.Fatalf("%s has no place for the recording", page)
	}
	want := table(t)
	if golden.Updating() {
		if err := os.WriteFile(page, []byte(before+"<!-- begin: recording -->\n"+want+"<!-- end: recording -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("%s differs; go test with -update rewrites it (-recorded +page):\n%s", page, diff)
	}
}

func TestThePagesHaveTheVersionsOfTheRecording(t *testing.T) {
	recorded := load(t)
	dra := loadDRA(t)
	for file, values := range map[string][]string{
		"compatibility.md": {recorded.Date, recorded.GPUs[0].Name, fmt.Sprintf("%d MiB", recorded.GPUs[0].MemoryMiB), recorded.GPUs[0].Driver, "feature discovery | " + recorded.Plugin, "DRA driver | " + dra.Driver},
		"gpu-sharing.md":   {fmt.Sprint(recorded.GPUs[0].MemoryMiB)},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range values {
			if !strings.Contains(string(text), value) {
				t.Errorf("%s has not %q, which was recorded", file, value)
			}
		}
	}
}
