package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// workflow has the fields of a workflow of GitHub Actions that ours has.
type workflow struct {
	Name string `json:"name"`
	// On has the key that YAML 1.1 reads as true.
	On          map[string]any `json:"true"`
	Permissions map[string]any `json:"permissions"`
	Jobs        map[string]struct {
		RunsOn      string            `json:"runs-on"`
		Permissions map[string]string `json:"permissions"`
		Env         map[string]string `json:"env"`
		Steps       []workflowStep    `json:"steps"`
	} `json:"jobs"`
}

type workflowStep struct {
	Name string            `json:"name"`
	Uses string            `json:"uses"`
	With map[string]any    `json:"with"`
	Run  string            `json:"run"`
	Env  map[string]string `json:"env"`
}

// pinned is an action by the digest of a commit, which nobody can move as a tag is moved.
var pinned = regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)

func TestTheWorkflowOnlyMakesSignsAndUploadsTheRelease(t *testing.T) {
	raw, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.UnmarshalStrict(raw, &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"push": map[string]any{"tags": []any{"v*"}}}, w.On); diff != "" {
		t.Errorf("it runs on (-want +got):\n%s", diff)
	}
	if w.Permissions == nil || len(w.Permissions) > 0 || len(w.Jobs) != 1 {
		t.Errorf("each job has the permissions %v; there are %d jobs", w.Permissions, len(w.Jobs))
	}
	job := w.Jobs["release"]
	if diff := cmp.Diff(map[string]string{"contents": "write", "packages": "write", "id-token": "write"}, job.Permissions); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	// What each step runs, by the programs that its lines begin with.
	programs := regexp.MustCompile(`(?m)(?:^|; |\| |<\(|\$\()\s*(make|cosign|helm|gh|docker|sed|jq|echo|go|curl|wget|npm|pip)\b`)
	allowed := map[string][]string{
		"Log in to the registry":              {"docker", "echo"},
		"Make the release and push the image": {"make"},
		"Sign the image and the files":        {"cosign", "jq", "sed"},
		"Push the charts":                     nil, // a loop, whose command is checked below
		"Publish":                             {"gh"},
	}
	for _, step := range job.Steps {
		if step.Uses != "" {
			if !pinned.MatchString(step.Uses) {
				t.Errorf("%s is not pinned by the digest of a commit", step.Uses)
			}
			continue
		}
		want, known := allowed[step.Name]
		if !known {
			t.Errorf("the step %q is none of those that make, sign or upload", step.Name)
		}
		delete(allowed, step.Name)
		found := map[string]bool{}
		for _, m := range programs.FindAllStringSubmatch(step.Run, -1) {
			found[m[1]] = true
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" && step.Name != "Push the charts" {
			t.Errorf("the step %q runs (-want +got):\n%s", step.Name, diff)
		}
		// What a person chooses, such as the name of a tag, reaches a shell by its environment only.
		if strings.Contains(step.Run, "${{") {
			t.Errorf("the step %q has an expression in its script", step.Name)
		}
	}
	if len(allowed) > 0 {
		t.Errorf("there are no steps %v", slices.Sorted(maps.Keys(allowed)))
	}
}

// The steps use files and a line that make release writes.
func TestTheWorkflowNamesFilesThatAReleaseHas(t *testing.T) {
	raw, err := os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	clone, folder := releasedClone(t)
	makeRelease(t, clone, folder)
	files := blobs(t, folder)
	for _, m := range regexp.MustCompile(`dist/release/([\w.-]+)`).FindAllStringSubmatch(string(raw), -1) {
		name := strings.TrimSuffix(m[1], ".sigstore.json")
		if _, there := files["/"+name]; !there {
			t.Errorf("a release has no %s", name)
		}
	}
	notes := regexp.MustCompile("(?m)^Image: `.*@(sha256:[0-9a-f]*)`$").FindStringSubmatch(files["/release-notes.md"])
	if !strings.Contains(string(raw), "s/^Image: `.*@\\(sha256:[0-9a-f]*\\)`$/\\1/p") || len(notes) != 2 || len(notes[1]) != 71 {
		t.Errorf("the image's digest is not found in the release notes: %v", notes)
	}
}
