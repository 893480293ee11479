// Package verify checks the files of a release as somebody who downloads them would: by their checksums, what is
// in the archives, and the formats that others define. What runs on this machine is run. Start reading at Folder.
package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/poolwright/poolwright/.ci/release/product"
)

// Platforms are those that a release has archives for.
var Platforms = []v1.Platform{
	{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"},
	{OS: "darwin", Architecture: "amd64"}, {OS: "darwin", Architecture: "arm64"},
}

// release is a folder that is checked.
type release struct {
	product.Release

	// files are the contents by name, and sums their SHA-256 in hexadecimal.
	files map[string][]byte
	sums  map[string]string
	// scratch is a folder for what is unpacked.
	scratch string
}

// Folder checks all files of a release in a folder. The error has everything that is wrong, each with its file.
func Folder(ctx context.Context, folder string, r product.Release) error {
	checked := release{Release: r, files: map[string][]byte{}, sums: map[string]string{}}
	listed, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("checking the release: %w", err)
	}
	for _, f := range listed {
		content, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return fmt.Errorf("checking the release: %w", err)
		}
		sum := sha256.Sum256(content)
		checked.files[f.Name()], checked.sums[f.Name()] = content, hex.EncodeToString(sum[:])
	}
	if checked.scratch, err = os.MkdirTemp("", "poolwright-verify-"); err != nil {
		return fmt.Errorf("checking the release: %w", err)
	}
	defer func() { _ = os.RemoveAll(checked.scratch) }()
	errs := []error{checked.named("checksums.txt", checked.checksums()), checked.named("provenance.intoto.json", checked.provenance())}
	for _, platform := range Platforms {
		errs = append(errs, checked.platform(ctx, platform))
	}
	errs = append(errs, checked.named("krew.yaml", checked.krew()), checked.named("install.yaml", checked.installation()))
	for _, chart := range []string{"poolwright", "poolwright-crds"} {
		errs = append(errs, checked.chart(chart))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the release in %s is not as it must be:\n%w", folder, err)
	}
	return nil
}

// named has the file before the error, and is the error where the file is missing.
func (r release) named(file string, err error) error {
	if _, there := r.files[file]; !there {
		return fmt.Errorf("%s is missing", file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// base is how the files of a platform begin.
func (r release) base(platform v1.Platform) string {
	return strings.Join([]string{"poolwright", r.Version, platform.OS, platform.Architecture}, "_")
}

// checksums compares the list with the files: each is in it once, and nothing else.
func (r release) checksums() error {
	var errs []error
	listed := map[string]bool{"checksums.txt": true}
	for line := range strings.Lines(string(r.files["checksums.txt"])) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		switch {
		case !found || listed[name]:
			errs = append(errs, fmt.Errorf("the line %q is none of a file's own", line))
		case r.sums[name] != sum:
			errs = append(errs, fmt.Errorf("%s has the checksum %q, and the list %s", name, r.sums[name], sum))
		}
		listed[name] = true
	}
	for name := range r.files {
		if !listed[name] {
			errs = append(errs, fmt.Errorf("it lacks %s", name))
		}
	}
	return errors.Join(errs...)
}
