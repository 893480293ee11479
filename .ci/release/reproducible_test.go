package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// smallVersion prints what poolwright version -o json does, whatever the arguments.
const smallVersion = `package cli

import "runtime"

var version, revision, imageRepository string

func Version() string {
	return "{\"version\":\"" + version + "\",\"gitCommit\":\"" + revision + "\",\"image\":\"" + imageRepository + ":" + version + "\",\"platform\":\"" + runtime.GOOS + "/" + runtime.GOARCH + "\"}"
}
`

// smallClone is a folder with the parts of the repository that an image is made of, and a program
// in the place of the controller that compiles in seconds.
func smallClone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                      "module github.com/poolwright/poolwright\n\ngo 1.27.0\n",
		"cmd/poolwright/main.go":      "package main\n\nimport (\n\t\"os\"\n\n\t\"github.com/poolwright/poolwright/cmd/internal/cli\"\n)\n\nfunc main() { os.Stdout.WriteString(cli.Version()) }\n",
		"cmd/internal/cli/version.go": smallVersion,
		"LICENSE":                     "the licence\n",
		"NOTICE":                      "the notice\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// blobs are the contents of an image layout by their paths. What lies below blobs is named by its
// digest.
func blobs(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnImageForBothPlatformsIsTheSameFromAnyPathAndRun(t *testing.T) {
	args := []string{"-version=v1.2.3", "-revision=0123456789abcdef", "-created=1700000000"}
	first, second := smallClone(t), smallClone(t)
	layouts := []string{filepath.Join(first, "dist/image"), filepath.Join(first, "dist/again"), filepath.Join(second, "dist/image")}
	for i, root := range []string{first, first, second} {
		if err := run(t.Context(), slices.Concat(args, []string{"-root=" + root, "-output=" + layouts[i]}), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	want := blobs(t, layouts[0])
	// An index, and for each platform a manifest, a configuration and the binary's layer; the files' layer is
	// shared. Of an SBOM there are a manifest, the document and a configuration, which has no content.
	if len(want) < 10 {
		t.Fatalf("the layout has %d files", len(want))
	}
	for _, dir := range layouts[1:] {
		if !maps.Equal(want, blobs(t, dir)) {
			t.Errorf("%s differs from %s", dir, layouts[0])
		}
	}
	read, err := layout.ImageIndexFromPath(layouts[0])
	if err != nil {
		t.Fatal(err)
	}
	checkMachines(t, read)
}

// checkMachines checks that each platform of a layout has a binary of that platform.
func checkMachines(t *testing.T, top v1.ImageIndex) {
	t.Helper()
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	found := map[string]elf.Machine{}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != m.Platform.Architecture || config.OS != m.Platform.OS {
			t.Errorf("the image for %s is configured for %s/%s", m.Platform, config.OS, config.Architecture)
		}
		found[m.Platform.String()] = machineOf(t, image)
	}
	want := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	if !maps.Equal(want, found) {
		t.Errorf("got the machines %v, want %v", found, want)
	}
}

// machineOf is the machine of the program in an image.
func machineOf(t *testing.T, image v1.Image) elf.Machine {
	t.Helper()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("finding the program: %v", err)
		}
		if header.Name != "poolwright" {
			continue
		}
		raw, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		program, err := elf.NewFile(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		return program.Machine
	}
}
