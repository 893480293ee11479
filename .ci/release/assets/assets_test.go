package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/.ci/release/product"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// config is a release of this clone, whose binaries are a script that prints its arguments.
func config(t *testing.T, version string) Config {
	t.Helper()
	script := filepath.Join(t.TempDir(), "poolwright")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Root: "../../..", Output: filepath.Join(t.TempDir(), "dist", "release"),
		Release:    product.Release{Version: version, Revision: "0123456789abcdef", Created: time.Unix(1_700_000_000, 0).UTC()},
		Repository: "registry.example.com/poolwright", ImageDigest: digest, Builder: "https://example.com/builder",
	}
	// A module that the clone has, whose licence goes along.
	info := &debug.BuildInfo{GoVersion: "go1.27.4", Deps: []*debug.Module{{Path: "github.com/google/go-cmp", Version: "v0.7.0"}}}
	info.Main.Path = "github.com/poolwright/poolwright"
	for _, os := range []string{"linux", "darwin"} {
		for _, architecture := range []string{"amd64", "arm64"} {
			c.Binaries = append(c.Binaries, product.Binary{Platform: v1.Platform{OS: os, Architecture: architecture}, Path: script, Info: info})
		}
	}
	return c
}

// made makes a release, and returns its files by their names.
func made(t *testing.T, c Config) map[string]string {
	t.Helper()
	if err := Make(t.Context(), c, io.Discard); err != nil {
		t.Fatal(err)
	}
	listed, err := os.ReadDir(c.Output)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range listed {
		content, err := os.ReadFile(filepath.Join(c.Output, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = string(content)
	}
	return out
}

// unpacked are the files of an archive, with their modes before their contents.
func unpacked(t *testing.T, content string) (names []string, files map[string]string) {
	t.Helper()
	zip, err := gzip.NewReader(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s is of the user %d and the time %s", header.Name, header.Uid, header.ModTime)
		}
		names, files[header.Name] = append(names, header.Name), string(raw)
	}
}

func TestAReleaseHasEachFileTwiceTheSame(t *testing.T) {
	c := config(t, "v0.1.0")
	files := made(t, c)
	want := []string{
		"checksums.txt", "install.yaml", "krew.yaml", "poolwright-0.1.0.tgz", "poolwright-crds-0.1.0.tgz",
		"poolwright_v0.1.0_darwin_amd64.spdx.json", "poolwright_v0.1.0_darwin_amd64.tar.gz",
		"poolwright_v0.1.0_darwin_arm64.spdx.json", "poolwright_v0.1.0_darwin_arm64.tar.gz",
		"poolwright_v0.1.0_linux_amd64.spdx.json", "poolwright_v0.1.0_linux_amd64.tar.gz",
		"poolwright_v0.1.0_linux_arm64.spdx.json", "poolwright_v0.1.0_linux_arm64.tar.gz",
		"provenance.intoto.json", "release-notes.md",
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(files, made(t, c)); diff != "" {
		t.Errorf("made again, it differs:\n%s", diff)
	}
	for name, content := range files {
		if name != "checksums.txt" && !strings.Contains(files["checksums.txt"], (asset{content: []byte(content)}).sha256()+"  "+name+"\n") {
			t.Errorf("the checksums lack %s", name)
		}
	}
}

func TestAnArchiveHasTheBinaryItsCompletionsAndLicences(t *testing.T) {
	names, files := unpacked(t, made(t, config(t, "v0.1.0"))["poolwright_v0.1.0_linux_arm64.tar.gz"])
	want := []string{
		"poolwright", "completions/kubectl_complete-poolwright", "completions/poolwright.bash", "completions/poolwright.fish",
		"completions/poolwright.zsh", "LICENSE", "NOTICE", "licenses/github.com/google/go-cmp/LICENSE",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if got := files["completions/poolwright.zsh"]; got != "completion zsh\n" {
		t.Errorf("the completions are %q", got)
	}
	if !strings.Contains(files["licenses/github.com/google/go-cmp/LICENSE"], "Redistribution and use") {
		t.Error("the module's licence has other terms")
	}
}

func TestWhatInstallsNamesTheImageOfTheRelease(t *testing.T) {
	files := made(t, config(t, "v0.1.0-rc.1"))
	const image = "registry.example.com/poolwright:v0.1.0-rc.1@" + digest
	if n := strings.Count(files["install.yaml"], "image: "+image+"\n"); n != 1 || strings.Contains(files["install.yaml"], "poolwright:dev") {
		t.Errorf("install.yaml has it %d times", n)
	}
	names, chart := unpacked(t, files["poolwright-0.1.0-rc.1.tgz"])
	if names[0] != "poolwright/Chart.yaml" || slices.Contains(names, "poolwright/.helmignore") {
		t.Errorf("the chart has %v", names)
	}
	var about struct{ Version, AppVersion string }
	var values struct {
		Image struct{ Repository, Tag, Digest string }
	}
	if err := errors.Join(yaml.Unmarshal([]byte(chart["poolwright/Chart.yaml"]), &about), yaml.Unmarshal([]byte(chart["poolwright/values.yaml"]), &values)); err != nil {
		t.Fatal(err)
	}
	if about.Version != "0.1.0-rc.1" || about.AppVersion != "v0.1.0-rc.1" {
		t.Errorf("the chart is %+v", about)
	}
	if values.Image.Repository != "registry.example.com/poolwright" || values.Image.Digest != digest || values.Image.Tag != "" {
		t.Errorf("its image is %+v", values.Image)
	}
	if !strings.Contains(chart["poolwright/README.md"], digest) {
		t.Error("its page has other defaults")
	}
	_, definitions := unpacked(t, files["poolwright-crds-0.1.0-rc.1.tgz"])
	if len(definitions) < 6 || !strings.Contains(definitions["poolwright-crds/Chart.yaml"], "\nversion: 0.1.0-rc.1\n") {
		t.Errorf("the chart of definitions has %d files", len(definitions))
	}
}

func TestKrewsManifestHasTheArchivesByTheirDigests(t *testing.T) {
	files := made(t, config(t, "v0.1.0"))
	var p plugin
	if err := yaml.UnmarshalStrict([]byte(files["krew.yaml"]), &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Spec.Platforms) != 4 || p.Spec.Version != "v0.1.0" || len(p.Spec.ShortDescription) > 50 {
		t.Errorf("it is %+v", p.Spec)
	}
	for _, platform := range p.Spec.Platforms {
		name := "poolwright_v0.1.0_" + platform.Selector.MatchLabels["os"] + "_" + platform.Selector.MatchLabels["arch"] + ".tar.gz"
		if !strings.HasSuffix(platform.URI, "/releases/download/v0.1.0/"+name) || platform.SHA256 != (asset{content: []byte(files[name])}).sha256() {
			t.Errorf("%s is %+v", name, platform)
		}
		names, _ := unpacked(t, files[name])
		for _, f := range platform.Files {
			if !slices.Contains(names, f.From) {
				t.Errorf("%s has no %s", name, f.From)
			}
		}
	}
}

func TestTheProvenanceIsAStatementAboutEveryFileAndTheImage(t *testing.T) {
	files := made(t, config(t, "v0.1.0"))
	var s intoto.Statement
	if err := protojson.Unmarshal([]byte(files["provenance.intoto.json"]), &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	subjects := map[string]string{}
	for _, subject := range s.GetSubject() {
		subjects[subject.GetName()] = subject.GetDigest()["sha256"]
	}
	if "sha256:"+subjects["registry.example.com/poolwright"] != digest {
		t.Error("the image is no subject")
	}
	for name, content := range files {
		if name != "checksums.txt" && name != "provenance.intoto.json" && subjects[name] != (asset{content: []byte(content)}).sha256() {
			t.Errorf("%s is no subject", name)
		}
	}
	var raw struct{ Predicate predicate }
	if err := json.NewDecoder(bytes.NewReader([]byte(files["provenance.intoto.json"]))).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	definition := raw.Predicate.BuildDefinition
	if definition.ResolvedDependencies[0].Digest["gitCommit"] != "0123456789abcdef" || raw.Predicate.RunDetails.Builder.ID != "https://example.com/builder" {
		t.Errorf("it is %+v", raw.Predicate)
	}
}

func TestReleaseNotesAreTheSectionOfTheVersion(t *testing.T) {
	const released = "## v0.1.0 (2026-12-01)\n\n- a\n\n"
	for name, test := range map[string]struct{ version, changelog, want, warning, fails string }{
		"the version's own":                      {changelog: "# Changelog\n\n## Unreleased\n\nlater\n\n## v0.1.0 (2026-12-01)\n\n### Added\n\n- a\n\n## v0.1.0-rc.1\n\nearlier\n", want: "### Added\n\n- a"},
		"not released yet":                       {changelog: "# Changelog\n\n## Unreleased\n\n- b\n", fails: "no section \"## v0.1.0\""},
		"a changelog with none":                  {changelog: "# Changelog\n", fails: "no section"},
		"a section without a text":               {changelog: "## v0.1.0\n\n## v0.0.1\n\n- z\n", fails: "no section"},
		"a version that begins alike is another": {changelog: "## v0.1.0-rc.1\n\nearlier\n", fails: "no section"},
		"before a release":                       {version: "v0.1.0-rc.1", changelog: "## Unreleased\n\n- b\n\n" + released, want: "- a", warning: "those of \"## v0.1.0\""},
		"before one that has no section":         {version: "v0.2.0-rc.1", changelog: "## Unreleased\n\n- b\n\n" + released, want: "- b", warning: "those of \"## Unreleased\""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.version == "" {
				test.version = "v0.1.0"
			}
			c := config(t, test.version)
			c.Root = t.TempDir()
			if err := os.WriteFile(filepath.Join(c.Root, "CHANGELOG.md"), []byte(test.changelog), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			got, err := c.notes(&out)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(string(got.content), "\n\n"+test.want+"\n") || !strings.Contains(out.String(), test.warning) {
				t.Errorf("got %q, printed %q", got.content, out.String())
			}
		})
	}
}

func TestAFinalVersionIsRefusedWhileSomethingIsUnreleased(t *testing.T) {
	const released = "## v0.1.0\n\n- a\n"
	for name, test := range map[string]struct {
		version, changelog string
		refused            bool
	}{
		"something is left":                      {"v0.1.0", "## Unreleased\n\n- b\n\n" + released, true},
		"something is left, and has no section":  {"v0.2.0", "## Unreleased\n\n- b\n\n" + released, true},
		"all of it was moved":                    {"v0.1.0", "## Unreleased\n\n" + released, false},
		"there is no heading for it":             {"v0.1.0", released, false},
		"a version before the release has it so": {"v0.1.0-rc.1", "## Unreleased\n\n- b\n\n" + released, false},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(test.changelog), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckChangelog(root, test.version); (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), "move it below \"## "+test.version) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheLinksOfReleaseNotesLeadToTheirTag(t *testing.T) {
	const tag = homepage + "/blob/v0.1.0/"
	for text, want := range map[string]string{
		"[a](docs/versions.md)":                     "[a](" + tag + "docs/versions.md)",
		"[a](docs/kinds/sync.md#conditions)":        "[a](" + tag + "docs/kinds/sync.md#conditions)",
		"[`a`](./config/iam), [b](docs/events.md).": "[`a`](" + tag + "config/iam), [b](" + tag + "docs/events.md).",
		"[a](#v010)":                               "[a](" + tag + "CHANGELOG.md#v010)",
		"[a](https://karpenter.sh/docs)":           "[a](https://karpenter.sh/docs)",
		"[a](mailto:a@example.com)":                "[a](mailto:a@example.com)",
		"`[a](docs/b.md)`":                         "`[a](docs/b.md)`",
		"```\n[a](docs/b.md)\n```\n[a](docs/b.md)": "```\n[a](docs/b.md)\n```\n[a](" + tag + "docs/b.md)",
		"f(x) and [a] (docs/b.md)":                 "f(x) and [a] (docs/b.md)",
	} {
		if got := absolute(text, "v0.1.0"); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Those of this repository's changelog: GitHub takes 125,000 characters, and a person a few pages.
func TestTheNotesOfTheNextReleaseAreShortAndLeadToFiles(t *testing.T) {
	c := config(t, "v0.1.0")
	c.Root = filepath.Join("..", "..", "..")
	notes, err := c.notes(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(notes.content) > 10_000 {
		t.Errorf("they have %d bytes", len(notes.content))
	}
	targets := regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(string(notes.content), -1)
	for _, target := range targets {
		name, ours := strings.CutPrefix(target[1], homepage+"/blob/v0.1.0/")
		name, _, _ = strings.Cut(name, "#")
		if _, err := os.Stat(filepath.Join(c.Root, name)); err != nil || !ours {
			t.Errorf("%s leads nowhere: %v", target[1], err)
		}
	}
	if len(targets) == 0 {
		t.Error("they have no link")
	}
}

func TestAReleaseIsRefusedThatWouldLackSomething(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"a version with a date": {func(c *Config) { c.Release.Version = "2026.1" }, "no version of a release"},
		"a module whose licence is not there": {func(c *Config) {
			c.Binaries[0].Info = &debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/secret"}}}
		}, "example.com/secret"},
		"no binary that runs here": {func(c *Config) {
			c.Binaries = slices.DeleteFunc(c.Binaries, func(b product.Binary) bool { return b.Platform.OS == runtime.GOOS })
		}, "completions"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, "v0.1.0")
			test.change(&c)
			err := Make(t.Context(), c, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if _, err := os.Stat(c.Output); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

func TestAManifestWithoutTheTextToReplaceIsRefused(t *testing.T) {
	if _, err := replace("values.yaml", []byte("repository: other\n"), []textChange{{"repository: poolwright", "x"}}); err == nil || !strings.Contains(err.Error(), "0 times") {
		t.Errorf("got %v", err)
	}
}

// The command is of another module, and cannot import this package.
func TestTheCommandTakesTheSameVersionsForReleases(t *testing.T) {
	const file = "../../../cmd/internal/cli/version.go"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "`"+released.String()+"`") {
		t.Errorf("%s has another expression than %s", file, released)
	}
}
