package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/.ci/release/product"
	"github.com/poolwright/poolwright/.ci/release/verify"
)

// commit and other are revisions, whose length in-toto's rules check.
const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	other  = "76543210fedcba9876543210fedcba9876543210"
)

// releasedClone makes a release of a small program with this repository's manifests, and returns its folder.
func releasedClone(t *testing.T) (clone, folder string) {
	t.Helper()
	clone = smallClone(t)
	if err := os.CopyFS(filepath.Join(clone, "config"), os.DirFS("../../config")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "CHANGELOG.md"), []byte("## v1.2.3\n\n- first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return clone, filepath.Join(clone, "dist", "release")
}

func makeRelease(t *testing.T, clone, folder string) string {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), []string{"-version=v1.2.3", "-revision=" + commit, "-created=1700000000", "-root=" + clone, "-files=" + folder}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAReleaseIsTheSameFromTwoPathsAndVerified(t *testing.T) {
	clone, folder := releasedClone(t)
	if out := makeRelease(t, clone, folder); !strings.Contains(out, "verified: ") {
		t.Errorf("nothing was verified:\n%s", out)
	}
	another, second := releasedClone(t)
	makeRelease(t, another, second)
	want, got := blobs(t, folder), blobs(t, second)
	if len(want) != 15 {
		t.Errorf("it has %d files", len(want))
	}
	if !maps.Equal(want, got) {
		for name := range want {
			if want[name] != got[name] {
				t.Errorf("%s differs", name)
			}
		}
	}
}

func TestAFileThatIsNotAsItMustBeIsFound(t *testing.T) {
	clone, folder := releasedClone(t)
	makeRelease(t, clone, folder)
	release := product.Release{Version: "v1.2.3", Revision: commit, Repository: "ghcr.io/poolwright/poolwright", Created: time.Unix(1_700_000_000, 0).UTC()}
	if err := verify.Folder(t.Context(), folder, release); err != nil {
		t.Fatal(err)
	}
	text := func(from, to string) func(*testing.T, []byte) []byte {
		return func(t *testing.T, content []byte) []byte {
			if !bytes.Contains(content, []byte(from)) {
				t.Fatalf("it has no %q", from)
			}
			return bytes.ReplaceAll(content, []byte(from), []byte(to))
		}
	}
	gone := func(*testing.T, []byte) []byte { return nil }
	of := func(platform string) func(*testing.T, []byte) []byte {
		return func(t *testing.T, _ []byte) []byte {
			content, err := os.ReadFile(filepath.Join(folder, "poolwright_v1.2.3_"+platform+".tar.gz"))
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
	}
	for name, test := range map[string]struct {
		file   string
		change func(*testing.T, []byte) []byte
		// unlisted leaves the checksums as they are.
		unlisted bool
		want     string
	}{
		"a file that was changed later":                  {"install.yaml", text("replicas: 2", "replicas: 3"), true, "install.yaml has the checksum"},
		"a list without a file":                          {"checksums.txt", text("  krew.yaml\n", "  other.yaml\n"), true, "it lacks krew.yaml"},
		"an archive with another platform's program":     {"poolwright_v1.2.3_darwin_arm64.tar.gz", of("darwin_amd64"), false, "the binary for darwin/arm64 is one of darwin and CpuAmd64"},
		"an archive for macOS with a program for Linux":  {"poolwright_v1.2.3_darwin_amd64.tar.gz", of("linux_amd64"), false, "reading the binary for darwin/amd64"},
		"an archive that is missing":                     {"poolwright_v1.2.3_linux_arm64.tar.gz", gone, false, "poolwright_v1.2.3_linux_arm64.tar.gz is missing"},
		"an SBOM that is missing":                        {"poolwright_v1.2.3_linux_arm64.spdx.json", gone, false, "poolwright_v1.2.3_linux_arm64.spdx.json is missing"},
		"an SBOM of another program":                     {"poolwright_v1.2.3_linux_arm64.spdx.json", text(`"SHA256"`, `"SHA1"`), false, "does not describe the program"},
		"an SBOM that is not SPDX":                       {"poolwright_v1.2.3_linux_arm64.spdx.json", text(`"SPDX-2.3"`, `"SPDX-9"`), false, "poolwright_v1.2.3_linux_arm64.spdx.json: "},
		"krew's manifest with a field that krew has not": {"krew.yaml", text("  homepage:", "  website:"), false, "krew.yaml: reading it"},
		"krew's manifest with another digest":            {"krew.yaml", text("sha256: ", "sha256: 0"), false, "are not those of the archive"},
		"krew's manifest with a file that is not there":  {"krew.yaml", text("from: NOTICE", "from: NOTES"), false, `files has "NOTES"`},
		"krew's manifest of another version":             {"krew.yaml", text("version: v1.2.3", "version: v1.2.4"), false, `spec.version is "v1.2.4"`},
		"krew's manifest with another host":              {"krew.yaml", text("uri: https://", "uri: https://example.com/"), false, "uri is"},
		"krew's manifest with another tag in a path":     {"krew.yaml", text("/download/v1.2.3/", "/download/v1.2.2/"), false, "uri is"},
		"manifests with one more image":                  {"install.yaml", text("        image: ", "        image: example.com/other\n        image: "), false, "the image is not one of this release"},
		"a provenance without a builder":                 {"provenance.intoto.json", text("https://poolwright.dev/builders/local", ""), false, "SLSA's rules"},
		"a provenance with a field that SLSA has not":    {"provenance.intoto.json", text(`"buildType"`, `"buildKind"`), false, "reading its predicate"},
		"a provenance of another commit":                 {"provenance.intoto.json", text(commit, other), false, "is not of commit"},
		"a provenance without a subject":                 {"provenance.intoto.json", text(`"release-notes.md"`, `"notes.md"`), false, "release-notes.md is no subject"},
		"manifests with another image":                   {"install.yaml", text(":v1.2.3@sha256:", ":v1.2.2@sha256:"), false, "the image is not one of this release"},
		"a chart that is no archive":                     {"poolwright-1.2.3.tgz", text("\x1f\x8b", "\x1f\x8c"), false, "poolwright-1.2.3.tgz: unpacking"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := t.TempDir()
			if err := os.CopyFS(changed, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(filepath.Join(changed, test.file))
			if err != nil {
				t.Fatal(err)
			}
			if content = test.change(t, content); content == nil {
				err = os.Remove(filepath.Join(changed, test.file))
			} else {
				err = os.WriteFile(filepath.Join(changed, test.file), content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !test.unlisted {
				list(t, changed)
			}
			err = verify.Folder(t.Context(), changed, release)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	for name, unlike := range map[string]product.Release{
		"another version": {Version: "v1.2.4", Revision: release.Revision},
		"another commit":  {Version: "v1.2.3", Revision: other},
		"another image":   {Version: "v1.2.3", Revision: commit, Repository: "example.com/poolwright", Created: release.Created},
	} {
		if err := verify.Folder(t.Context(), folder, unlike); err == nil {
			t.Errorf("it was taken for one of %s", name)
		}
	}
}

// list writes the checksums of a folder anew.
func list(t *testing.T, folder string) {
	t.Helper()
	files := blobs(t, folder)
	delete(files, "/checksums.txt")
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256([]byte(files[name])), strings.TrimPrefix(name, "/"))
	}
	if err := os.WriteFile(filepath.Join(folder, "checksums.txt"), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
