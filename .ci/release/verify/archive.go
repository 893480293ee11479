package verify

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/poolwright/poolwright/.ci/release/product"
)

// maxFile bounds what one file of an archive may be unpacked to.
const maxFile = 1 << 30

// member is a file of an archive.
type member struct {
	mode    os.FileMode
	content []byte
}

// unpack reads a compressed tar archive. It must have regular files only, each once and below the folder that
// it is unpacked in.
func unpack(content []byte) (map[string]member, error) {
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	out := map[string]member{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		if _, twice := out[header.Name]; twice || header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return nil, fmt.Errorf("unpacking: %q is there twice, is no regular file, or leads out of the folder", header.Name)
		}
		raw, err := io.ReadAll(io.LimitReader(archive, maxFile))
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", header.Name, err)
		}
		out[header.Name] = member{mode: header.FileInfo().Mode(), content: raw}
	}
}

// platform checks the archive and the SBOM of a platform.
func (r release) platform(ctx context.Context, platform v1.Platform) error {
	name := r.base(platform) + ".tar.gz"
	if r.files[name] == nil {
		return fmt.Errorf("%s is missing", name)
	}
	members, err := unpack(r.files[name])
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	path := filepath.Join(r.scratch, r.base(platform))
	program := members["poolwright"]
	if err := os.WriteFile(path, program.content, 0o755); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	binary, err := product.Inspect(platform, path)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	errs := []error{executable(members), complete(members, binary)}
	if platform.OS == runtime.GOOS && platform.Architecture == runtime.GOARCH {
		errs = append(errs, r.runs(ctx, platform, path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	bill := r.base(platform) + ".spdx.json"
	return r.named(bill, r.sbom(bill, binary, program.content))
}

// executable checks which files may be run: the program and kubectl's completion.
func executable(members map[string]member) error {
	var errs []error
	for name, m := range members {
		isProgram := name == "poolwright" || name == "completions/kubectl_complete-poolwright"
		if isProgram != (m.mode&0o111 != 0) {
			errs = append(errs, fmt.Errorf("%s has the mode %s", name, m.mode))
		}
	}
	return errors.Join(errs...)
}

// complete checks that completions, our terms, and those of each module that the program was built from are there.
func complete(members map[string]member, binary product.Binary) error {
	var errs []error
	for _, name := range []string{
		"LICENSE", "NOTICE", "completions/poolwright.bash", "completions/poolwright.fish", "completions/poolwright.zsh",
		"completions/kubectl_complete-poolwright",
	} {
		if len(members[name].content) == 0 {
			errs = append(errs, fmt.Errorf("%s is missing or empty", name))
		}
	}
	for _, module := range binary.Info.Deps {
		found := false
		for name := range members {
			rest, within := strings.CutPrefix(name, "licenses/"+module.Path+"/")
			found = found || within && !strings.Contains(rest, "/")
		}
		if !found {
			errs = append(errs, fmt.Errorf("the licence of %s is missing", module.Path))
		}
	}
	return errors.Join(errs...)
}

// runs runs the program of this machine's platform, which must be of this release.
func (r release) runs(ctx context.Context, platform v1.Platform, path string) error {
	cmd := exec.CommandContext(ctx, path, "version", "-o", "json")
	cmd.Env = []string{}
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("running poolwright version -o json: %w", err)
	}
	var got struct{ Version, GitCommit, Image, Platform string }
	if err := json.Unmarshal(text, &got); err != nil {
		return fmt.Errorf("reading poolwright version -o json: %w", err)
	}
	if got.Version != r.Version || got.GitCommit != r.Revision || got.Platform != platform.String() {
		return fmt.Errorf("the program is version %q of commit %q for %q", got.Version, got.GitCommit, got.Platform)
	}
	if want := r.Repository + ":" + r.Version; got.Image != want {
		return fmt.Errorf("the program installs the image %q, and not %s", got.Image, want)
	}
	return nil
}

// sbom checks the SPDX document of a program: it must describe it by its digest, and have each of its modules.
func (r release) sbom(name string, binary product.Binary, program []byte) error {
	if r.files[name] == nil {
		return nil // named reports it
	}
	document := &spdx.Document{}
	if err := spdxjson.ReadInto(bytes.NewReader(r.files[name]), document); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if document.SPDXVersion != spdx.Version || document.DataLicense != spdx.DataLicense || document.DocumentNamespace == "" || document.CreationInfo == nil {
		return errors.New("a field that SPDX 2.3 requires of a document is missing")
	}
	described := false
	packages := map[string]bool{}
	for _, p := range document.Packages {
		if p.PackageName == "" || p.PackageSPDXIdentifier == "" || p.PackageDownloadLocation == "" {
			return fmt.Errorf("a field that SPDX 2.3 requires of a package is missing: %q", p.PackageName)
		}
		packages[p.PackageName+" "+p.PackageVersion] = true
		described = described || p.PackageName == binary.Info.Main.Path && slices.ContainsFunc(p.PackageChecksums, func(c common.Checksum) bool {
			return c.Algorithm == common.SHA256 && c.Value == sumOf(program)
		})
	}
	if !described {
		return errors.New("it does not describe the program of the archive by its SHA-256")
	}
	for _, module := range binary.Info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if !packages[module.Path+" "+module.Version] {
			return fmt.Errorf("it lacks %s %s", module.Path, module.Version)
		}
	}
	return nil
}
