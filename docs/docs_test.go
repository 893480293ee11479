// Package docs_test holds the pages of docs/ to the code that they describe.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestAKindsPageListsEveryFieldAndNoOther(t *testing.T) {
	for page, crd := range map[string]string{"sync.md": "poolwright.dev_syncs.yaml", "cluster.md": "poolwright.dev_clusters.yaml", "deviceplugin.md": "poolwright.dev_deviceplugins.yaml"} {
		t.Run(page, func(t *testing.T) {
			var definition apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal([]byte(read(t, "../config/crd/"+crd)), &definition); err != nil {
				t.Fatal(err)
			}
			schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
			var fields []string
			for _, part := range []string{"spec", "status"} {
				fields = append(fields, paths(part, schema.Properties[part])[1:]...)
			}
			reported := firstColumn(read(t, "kinds/"+page), regexp.MustCompile(`^(spec|status)\.`))
			for _, field := range fields {
				if !slices.Contains(reported, field) {
					t.Errorf("docs/kinds/%s has no row for %s", page, field)
				}
			}
			for _, field := range reported {
				if !slices.Contains(fields, field) {
					t.Errorf("docs/kinds/%s tells of %s, which the kind does not have", page, field)
				}
			}
		})
	}
}

// paths lists a schema's fields, conditions and map keys left out.
func paths(at string, schema apiextensionsv1.JSONSchemaProps) []string {
	out := []string{at}
	if at == "status.conditions" {
		return out
	}
	if schema.Items != nil && schema.Items.Schema != nil && len(schema.Items.Schema.Properties) > 0 {
		return append(out, paths(at+"[]", *schema.Items.Schema)[1:]...)
	}
	for name, property := range schema.Properties {
		out = append(out, paths(at+"."+name, property)...)
	}
	return out
}

// namesOfTheCode are the names that the code has and a page lists.
var namesOfTheCode = []struct {
	page, what, in string
	// The first group of the pattern is the name.
	pattern string
}{
	{"kinds/sync.md", "reason", "../reconciler/controller/result.go", `"([A-Z][a-z]+[A-Z]\w+)"`},
	{"kinds/sync.md", "reason", "../reconciler/controller/result.go", `fluxmeta\.(\w+)Reason`},
	{"kinds/sync.md", "reason", "../reconciler/controller/status.go", `(?:metav1\.Condition(?:True|False|Unknown), |Reason: |(?m)^\treason, message = )"([A-Z]\w+)"`},
	{"kinds/sync.md", "reason", "../reconciler/controller/dependency/check.go", `fluxmeta\.(\w+)Reason`},
	{"kinds/sync.md", "reason", "../reconciler/controller/dependency/check.go", `(?m)^\t\w+ = "([A-Z]\w+)"$`},
	{"kinds/sync.md", "reason", "../reconciler/rollback/rollback.go", `Reason\w+ = "(\w+)"`},
	{"kinds/sync.md", "reason", "../reconciler/controller/rollout/rollout.go", `(?m)^\t\w+ = "([A-Z]\w+)"$`},
	{"kinds/sync.md", "reason", "../gitsource/reason.go", `"([A-Z][a-z]+[A-Z]\w+)"`},
	{"kinds/sync.md", "reason", "../reconciler/declared", `state\.Fail\w*\(state\.Stalled, "(\w+)"`},
	{"kinds/sync.md", "reason", "../reconciler/ssmversion/updater/updater.go", `state\.Fail\w*\(state\.\w+, "(\w+)"`},
	{"kinds/sync.md", "reason", "../cmd/internal/child", `state\.Fail\w*\(state\.\w+, "(\w+)"`},
	{"kinds/sync.md", "reason", "../reconciler/controller", `state\.Fail\w*\(state\.\w+, "(\w+)"`},
	{"kinds/sync.md", "reason", "../cmd/internal/connect/ssm.go", `state\.Fail\w*\(state\.\w+, "(\w+)"`},
	{"kinds/sync.md", "annotation or label", "../reconciler/api/v1alpha1", `= "([a-z.]+/[a-zA-Z]+)"`},
	{"kinds/cluster.md", "reason", "../reconciler/controller/cluster/reconciler.go", `(?:metav1\.Condition(?:True|False|Unknown), |eason = |Reason: )"([A-Z]\w+)"`},
	{"kinds/cluster.md", "reason", "../reconciler/controller/cluster/awsstatus.go", `Reason(?:: | = \w[\w.]*, )"([A-Z]\w+)"`},
	{"kinds/cluster.md", "reason", "../reconciler/controller/cluster/desired.go", `(?:Invalid: true, Reason: |Reason, s\.Message = (?:true, )?)"([A-Z]\w+)"`},
	{"kinds/cluster.md", "reason", "../cmd/internal/operator", `BlockedBy\("([A-Z]\w+)"`},
	{"kinds/cluster.md", "reason", "../reconciler/controller/cluster", `BlockedBy\("([A-Z]\w+)"`},
	{"kinds/cluster.md", "annotation", "../provision/engine/gate", `(poolwright\.dev/[a-z-]+)`},
	{"kinds/cluster.md", "gate", "../provision/engine/gate/gate.go", `Name = "(\w+)"`},
	{"kinds/cluster.md", "reason", "../provision/engine/gate/gate.go", `(?m)^\t\w+ += "(\w+)"$`},
	{"kinds/cluster.md", "feature gate", "../provision/engine/featuregates.go", `"([A-Z]\w+)"`},
	{"kinds/deviceplugin.md", "reason", "../reconciler/deviceplugin/status", `(?:metav1\.Condition(?:True|False|Unknown), |Reason: )"([A-Z]\w+)"`},
	{"kinds/deviceplugin.md", "failure", "../provision/gpu/readiness", `(?m)^\s+([A-Z]\w+) = "[A-Z]\w+"$`},
	{"kinds/deviceplugin.md", "name", "../provision/gpu/sharing.go", `= "(\w+\.[a-z.]+/[a-z-]+)"`},
	{"commands.md", "command", "../cmd/internal/cli", `Use:\s+"([a-z-]+)`},
	{"commands.md", "flag", "../cmd/internal/cli", `lags(?:\(\))?\.\w+VarP?\([^,]+, "([a-z-]+)"`},
	{"commands.md", "command", "../cmd/internal/get", `Use:\s+"([a-z-]+)`},
	{"commands.md", "flag", "../cmd/internal/get", `lags(?:\(\))?\.\w+VarP?\([^,]+, "([a-z-]+)"`},
	{"commands.md", "command", "../cmd/internal/history", `Use:\s+"([a-z-]+)`},
	{"commands.md", "flag", "../cmd/internal/history", `lags(?:\(\))?\.\w+VarP?\([^,]+, "([a-z-]+)"`},
	{"howto/history.md", "cause", "../reconciler/history/history.go", `Reason = "(\w+)"`},
	{"howto/history.md", "cause", "../reconciler/history/history.go", `"((?:Spot|CapacityReservation|Instance)[a-zA-Z]+)"`},
	{"commands.md", "command", "../cmd/internal/wait", `Use:\s+"([a-z-]+)`},
	{"commands.md", "flag", "../cmd/internal/wait", `lags(?:\(\))?\.\w+VarP?\([^,]+, "([a-z-]+)"`},
	{"commands.md", "command", "../cmd/internal/githubapp", `Use:\s+"([a-z-]+)`},
	{"commands.md", "flag", "../cmd/internal/githubapp", `lags(?:\(\))?\.\w+VarP?\([^,]+, "([a-z-]+)"`},
	{"commands.md", "command", "../cmd/poolwright-sandbox", `Use:\s+"([a-z-]+)`},
	{"commands.md", "flag", "../cmd/poolwright-sandbox", `lags(?:\(\))?\.\w+VarP?\([^,]+, "([a-z-]+)"`},
	{"metrics.md", "metric", "../reconciler", `Name: "(poolwright_\w+)"`},
	{"metrics.md", "metric", "../provision/engine", `Name: "(poolwright_\w+)"`},
	{"metrics.md", "metric", "../provision/gpu", `Name: "(poolwright_\w+)"`},
	{"events.md", "event", "../provision/gpu", `Event\w?\([^,]+, corev1\.EventType\w+, "([A-Z]\w+)"`},
	{"events.md", "event", "../reconciler/controller", `Event\w?\(sync, [^,]+, "([A-Z]\w+)"`},
	{"events.md", "event", "../reconciler/ssmversion/updater/updater.go", `Event\w?\(sync, [^,]+, "([A-Z]\w+)"`},
	{"events.md", "event", "../reconciler/pullrequest/internal/failure/failure.go", `\w\s+= "([A-Z]\w+)"`},
	{"events.md", "event", "../cmd/internal/operator", `pullrequest\.ForgeAccess\{\}, state\.Fail\w*\(state\.\w+, "(\w+)"`},
	{"pull-requests.md", "reason", "../reconciler/pullrequest/internal/failure/failure.go", `\w\s+= "([A-Z]\w+)"`},
	{"events.md", "event", "../cmd/poolwright-sandbox", `= "([a-z]+(?:\.[a-z]+)+)"`},
	{"events.md", "summary field", "../cmd/poolwright-sandbox", `"([a-z]+[A-Z]\w+(?:Seconds|Nodes|USD))"`},
}

func TestThePagesListEveryNameOfTheCode(t *testing.T) {
	for _, c := range namesOfTheCode {
		page := read(t, c.page)
		names := find(t, c.in, regexp.MustCompile(c.pattern))
		if len(names) == 0 {
			t.Errorf("%s: no %s was found in %s any more: mend the pattern", c.page, c.what, c.in)
		}
		for _, name := range names {
			if !regexp.MustCompile(`(^|[^\w.-])(--)?` + regexp.QuoteMeta(name) + `([^\w-]|$)`).MatchString(page) {
				t.Errorf("docs/%s does not tell of the %s %s, which is in %s", c.page, c.what, name, strings.TrimPrefix(c.in, "../"))
			}
		}
	}
}

func TestEveryRelativeLinkLeadsToAFileAndHeading(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, file := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(headings(read(t, to)), anchor) {
				t.Errorf("%s links to %s, and there is no such heading", file, m[1])
			}
		}
	}
}

// markdown lists our pages, at the root and in docs.
func markdown(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "../examples"} {
		files = append(files, walk(t, dir, ".md")...)
	}
	return files
}

func headings(page string) []string {
	var out []string
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			slug := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			out = append(out, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return out
}

// firstColumn lists the code spans in the first column of tables that match; a
// cell may hold several.
func firstColumn(page string, want *regexp.Regexp) []string {
	var out []string
	for _, cell := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(page, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell[1], -1) {
			if want.MatchString(m[1]) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// find lists the pattern's first groups in a file, or in the Go files of a
// folder, tests left out.
func find(t *testing.T, in string, pattern *regexp.Regexp) []string {
	t.Helper()
	var out []string
	for _, file := range walk(t, in, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range pattern.FindAllStringSubmatch(read(t, file), -1) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func walk(t *testing.T, root, extension string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, extension) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
