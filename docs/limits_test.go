package docs_test

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unit writes a number as a person reads it.
type unit func(int64) string

func bytes(n int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func seconds(n int64) string { return fmt.Sprintf("%d s", n) }

func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// The files in which the limits are.
const (
	ofTree     = "../reconciler/declared/manifest/tree.go"
	ofSource   = "../gitsource/gogit/config.go"
	ofArtifact = "../gitsource/artifact/source.go"
	ofRunner   = "../cmd/internal/child/runner.go"
	ofSlots    = "../cmd/internal/child/semaphore.go"
	ofAdded    = "../reconciler/declared/render/output.go"
	ofLoads    = "../reconciler/declared/render/survey.go"
	ofChilds   = "../cmd/internal/operator/children.go"
	ofFilling  = "../reconciler/declared/substitute/expand.go"
)

// limit is one row of the page: where the code has it, under which name.
type limit struct {
	row, file, name string
	unit            unit
}

func limits() []limit {
	return []limit{
		{"a transfer from the Git server", ofSource, "PackBytes", bytes},
		{"an object of Git, unpacked", ofSource, "ObjectBytes", bytes},
		{"all objects of a transfer, unpacked", ofSource, "UnpackedBytes", bytes},
		{"objects of a transfer", ofSource, "Objects", number},
		{"files in the tree", ofSource, "Files", number},
		{"the names of these files, in memory", ofSource, "IndexBytes", bytes},
		{"the name of a file", "../gitsource/gogit/internal/tree/walker.go", "maxName", bytes},
		{"folders within folders", ofSource, "Depth", number},
		{"a file that is read", ofSource, "FileBytes", bytes},
		{"commits that are read to find the merge base of two revisions", ofSource, "Commits", number},
		{"a fetch", ofSource, "Timeout", seconds},
		{"silence of the Git server", ofSource, "IdleTimeout", seconds},
		{"an archive", ofArtifact, "ArchiveBytes", bytes},
		{"all of an archive, unpacked", ofArtifact, "UnpackedBytes", bytes},
		{"files and folders of an archive", ofArtifact, "Files", number},
		{"all names in an archive", ofArtifact, "NameBytes", bytes},
		{"a file of an archive that is read", ofArtifact, "FileBytes", bytes},
		{"a name in an archive", "../gitsource/artifact/archive.go", "maxName", bytes},
		{"levels of folders in an archive", "../gitsource/artifact/archive.go", "maxDepth", number},
		{"its download", ofArtifact, "Timeout", seconds},
		{"silence of its server", ofArtifact, "IdleTimeout", seconds},
		{"a file of manifests", ofTree, "FileBytes", bytes},
		{"all files that are read", ofTree, "TotalBytes", bytes},
		{"files that are read", ofTree, "Files", number},
		{"objects", ofTree, "Objects", number},
		{"levels of a document", ofTree, "Depth", number},
		{"values of a document, aliases written out", ofTree, "Nodes", number},
		{"values of all documents", ofTree, "TotalNodes", number},
		{"memory that all objects take", ofTree, "Rendered", bytes},
		{"what a JSON patch copies within an object", ofAdded, "maxCopied", bytes},
		{"applications of such an entry to an object", ofAdded, "maxApplied", number},
		{"the largest object, if all replacements copy", "../reconciler/declared/render/growth.go", "maxGrown", bytes},
		{"a name that a kustomization gives", ofAdded, "maxName", bytes},
		{"kustomizations within kustomizations", ofLoads, "maxNesting", number},
		{"kustomizations that are loaded", ofLoads, "maxLoads", number},
		{"the expression", ofFilling, "maxExpression", bytes},
		{"what it comes to", ofFilling, "maxValue", bytes},
		{"memory", ofSlots, "memoryDefault", bytes},
		{"processor time", ofRunner, "CPU", seconds},
		{"duration (`RenderTimeout`)", ofRunner, "Deadline", seconds},
		{"files that it is given", ofRunner, "Input", bytes},
		{"its result, of a followed branch", ofChilds, "followedOutput", bytes},
		{"its result, of a pull request", ofRunner, "Output", bytes},
		{"the result in memory, of a followed branch", ofChilds, "followedDecoded", bytes},
		{"the result in memory, of a pull request", ofRunner, "decodedDefault", bytes},
		{"cached renderings", "../reconciler/rendercache/rendercache.go", "MaxBytes", bytes},
		{"builds of followed folders", "../reconciler/declared/buildcache/cache.go", "MaxBytes", bytes},
		{"decoded revisions between runs", ofChilds, "cachedRevisions", bytes},
		{"decoded revisions that runs load for themselves", ofChilds, "uncachedRevisions", bytes},
		{"`--cache-size-limit`", "../cmd/internal/operator/clonecaches.go", "DefaultCacheSizeLimit", bytes},
	}
}

func TestThePageOfLimitsIsTrueToTheCode(t *testing.T) {
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|`).FindAllStringSubmatch(read(t, "limits.md"), -1) {
		rows[row[1]] = row[2]
	}
	want := map[string]string{}
	for _, l := range limits() {
		want[l.row] = l.unit(valueIn(t, l.file, l.name))
	}
	// What follows from others.
	want["text of a document, aliases written out"] = bytes(valueIn(t, "../reconciler/declared/manifest/document.go", "aliased") * valueIn(t, ofTree, "FileBytes"))
	want["text that labels, annotations, patches, replacements and `vars` add to all objects"] = bytes(valueIn(t, ofTree, "Rendered") / 2)
	besides := valueIn(t, ofSlots, "atOnce")*(valueIn(t, ofSlots, "memoryDefault")+valueIn(t, ofSlots, "besides")) + valueIn(t, ofSlots, "headroom")
	deployment := read(t, "../config/manager/deployment.yaml")
	want["`GOMEMLIMIT`"] = regexp.MustCompile(`value: (\d+)MiB`).FindStringSubmatch(deployment)[1] + " MiB"
	want["`resources.limits.memory`"] = regexp.MustCompile(`limits: \{memory: (\d+)Mi\}`).FindStringSubmatch(deployment)[1] + " MiB"
	for row, value := range want {
		if rows[row] != value {
			t.Errorf("docs/limits.md has for %q %q, and the code has %s", row, rows[row], value)
		}
	}
	for row, value := range rows {
		if _, known := want[row]; !known && strings.ContainsAny(value, "0123456789") {
			t.Errorf("docs/limits.md has %q, which is held against nothing", row)
		}
	}
	if text := fmt.Sprintf("`GOMEMLIMIT` + %s", bytes(besides)); strings.Count(read(t, "limits.md"), text) < 2 {
		t.Errorf("docs/limits.md does not say that the container needs %s", text)
	}
}

// TestEachLimitIsOnThePage has whoever adds a limit write it down.
func TestEachLimitIsOnThePage(t *testing.T) {
	for _, file := range []string{ofTree, ofSource, ofArtifact, ofRunner} {
		for name := range fields(t, file) {
			if !slices.ContainsFunc(limits(), func(l limit) bool { return l.name == name && (l.file == file || name == "Memory") }) &&
				!slices.Contains([]string{"Memory", "Decoded"}, name) { // They are the constants' rows.
				t.Errorf("docs/limits.md has no row for %s of %s", name, file)
			}
		}
	}
}

// TestEachMeasurementOfMemoryNamesATestOrBenchmark holds that a row of what the controller takes can be measured again.
func TestEachMeasurementOfMemoryNamesATestOrBenchmark(t *testing.T) {
	_, page, found := strings.Cut(read(t, "limits.md"), "\n| process | by | memory |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/limits.md has no table of what a process takes any more")
	}
	table, _, _ := strings.Cut(page, "\n\n")
	folders := []string{"cmd/internal/e2e", "cmd/internal/child", "cmd/poolwright-sandbox/benchmark"}
	last := ""
	for row := range strings.Lines(table + "\n") {
		by := strings.TrimSpace(strings.Split(row, "|")[2])
		if name := regexp.MustCompile("`((?:Test|Benchmark)\\w+)`").FindStringSubmatch(by); name != nil {
			last = name[1]
			if !slices.ContainsFunc(folders, func(folder string) bool { return testsIn(t, folder)[last] }) {
				t.Errorf("docs/limits.md names %s, which is in none of %v", last, folders)
			}
		} else if by != "the same" || last == "" {
			t.Errorf("this row names nothing that measures it: %s", row)
		}
	}
}

// fields are the defaults of a struct of limits, by field.
func fields(t *testing.T, file string) map[string]string {
	t.Helper()
	text, out := read(t, file), map[string]string{}
	for _, pattern := range []string{`\{&l\.(\w+), ([^}]+)\}`, `orDefault\(&l\.(\w+), ([^)]+)\)`, `\n\t\tl\.(\w+) = (.+)`} {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out[found[1]] = found[2]
		}
	}
	if len(out) == 0 {
		t.Fatalf("no default is found in %s", file)
	}
	return out
}

// valueIn is the value of a constant, or of a field's default, in a file.
func valueIn(t *testing.T, file, name string) int64 {
	t.Helper()
	var text string
	if found := regexp.MustCompile(`(?m)^(?:const|\t)\s*` + name + `\s+= ([^/\n]+)`).FindStringSubmatch(read(t, file)); found != nil {
		text = found[1]
	} else {
		text = fields(t, file)[name]
	}
	expression := strings.NewReplacer("time.Minute", "60", "time.Second", "1").Replace(text)
	value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
	if err != nil {
		t.Fatalf("%s of %s is %q: %v", name, file, text, err)
	}
	n, exact := constant.Int64Val(constant.ToInt(value.Value))
	if !exact {
		t.Fatalf("%s of %s is %s", name, file, value.Value)
	}
	return n
}
