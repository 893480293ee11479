// Package assets makes the files of a release: archives with the binary for Linux and macOS, their SBOMs,
// the manifests and charts that install the controller, the manifest for krew, release notes, a
// provenance statement and checksums. They depend on the clone and the binaries only, not on where or when they
// are made. Nothing is signed or sent here. Start reading at Make.
package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/.ci/release/product"
)

const (
	homepage    = "https://github.com/poolwright/poolwright"
	description = "GitOps for GPU node pools on Amazon EKS"
)

// Config is what a release is made of.
type Config struct {
	// Root is the clone of the repository, Output the folder that is replaced.
	Root, Output string
	// Release is stamped into all that has a version.
	Release product.Release
	// Binaries are the product for each platform that gets an archive; one of them is for this machine.
	Binaries []product.Binary
	// Repository and ImageDigest are of the image that the manifests and the charts name.
	Repository, ImageDigest string
	// Builder is a URI of who makes this, for the provenance.
	Builder string
}

// asset is one file of a release.
type asset struct {
	name    string
	content []byte
}

// sha256 is the digest of a file's content in hexadecimal.
func (f asset) sha256() string {
	sum := sha256.Sum256(f.content)
	return hex.EncodeToString(sum[:])
}

// released is the version of a release or of a candidate for one. The command takes the same for one, and only
// then has the image of its release as a default: another version would make a command without it.
var released = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-(alpha|beta|rc)\.(0|[1-9][0-9]*))?$`)

// CheckVersion refuses what is no version of a release.
func CheckVersion(version string) error {
	if !released.MatchString(version) {
		return fmt.Errorf("-version: %q is no version of a release, such as v0.1.0 or v0.2.0-rc.1", version)
	}
	return nil
}

// Make makes all files of a release in the folder Output, and prints their digests.
func Make(ctx context.Context, c Config, out io.Writer) error {
	if err := CheckVersion(c.Release.Version); err != nil {
		return err
	}
	files, err := c.archives(ctx)
	if err != nil {
		return err
	}
	krew, err := c.krew(files)
	if err != nil {
		return err
	}
	for _, b := range c.Binaries {
		bill, err := product.SBOM(b, c.Release)
		if err != nil {
			return err
		}
		files = append(files, asset{name: c.base(b) + ".spdx.json", content: bill})
	}
	files = append(files, krew)
	for _, one := range []func() (asset, error){
		c.install,
		func() (asset, error) { return c.chart("poolwright") },
		func() (asset, error) { return c.chart("poolwright-crds") },
		func() (asset, error) { return c.notes(out) },
	} {
		made, err := one()
		if err != nil {
			return err
		}
		files = append(files, made)
	}
	statement, err := c.provenance(files)
	if err != nil {
		return err
	}
	return c.write(append(files, statement), out)
}

// base is how the files of a platform are called.
func (c Config) base(b product.Binary) string {
	return strings.Join([]string{"poolwright", c.Release.Version, b.Platform.OS, b.Platform.Architecture}, "_")
}

// write replaces the folder by the files and their checksums.
func (c Config) write(files []asset, out io.Writer) error {
	slices.SortFunc(files, func(a, b asset) int { return strings.Compare(a.name, b.name) })
	var sums strings.Builder
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", f.sha256(), f.name)
	}
	fresh := c.Output + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("writing the release: %w", err)
	}
	if err := os.MkdirAll(fresh, 0o755); err != nil { // other tools read it
		return fmt.Errorf("writing the release: %w", err)
	}
	for _, f := range append(files, asset{name: "checksums.txt", content: []byte(sums.String())}) {
		if err := os.WriteFile(filepath.Join(fresh, f.name), f.content, 0o644); err != nil {
			return fmt.Errorf("writing the release: %w", err)
		}
	}
	if err := os.RemoveAll(c.Output); err != nil {
		return fmt.Errorf("writing the release: %w", err)
	}
	if err := os.Rename(fresh, c.Output); err != nil {
		return fmt.Errorf("writing the release: %w", err)
	}
	_, err := io.WriteString(out, sums.String())
	return err
}
