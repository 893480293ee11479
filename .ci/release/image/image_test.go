package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/poolwright/poolwright/.ci/release/product"
)

const root = "../../.."

var stamped = product.Release{Version: "v1.2.3", Revision: "0123456789abcdef", Created: time.Unix(1_700_000_000, 0).UTC()}

// here is the platform of this machine, on which its binary can run.
func here(t *testing.T) v1.Platform {
	t.Helper()
	if _, known := product.ELFMachine(runtime.GOARCH); runtime.GOOS != "linux" || !known {
		t.Skip("the image is for linux on amd64 and arm64")
	}
	return v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
}

// ownBinary is this test's own program, in the place of the controller.
func ownBinary(t *testing.T) product.Binary {
	t.Helper()
	platform := here(t)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := product.Inspect(platform, own)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnImageThatWasPushedRunsAsItsUser(t *testing.T) {
	platform := here(t)
	// Without -trimpath, what other tests have compiled need not be compiled again.
	b, err := product.Build(t.Context(), root, stamped, platform, filepath.Join(t.TempDir(), "poolwright"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(root, stamped, []product.Binary{b})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/poolwright"
	if err := a.Push(t.Context(), to, stamped.Version, authn.NewMultiKeychain(), io.Discard); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(to + ":" + stamped.Version)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(tag, remote.WithPlatform(platform))
	if err != nil {
		t.Fatal(err)
	}
	size, err := compressed(pulled)
	if err != nil || size > maxCompressed {
		t.Errorf("it has %d bytes compressed, %v", size, err)
	}
	t.Logf("it has %d bytes compressed", size)
	// New refuses any platform's that is larger.
	if err := checkSize(pulled, platform, size-1); err == nil || !strings.Contains(err.Error(), platform.String()) {
		t.Errorf("an image that is larger than its limit: %v", err)
	}
	if err := checkSize(pulled, platform, size); err != nil {
		t.Error(err)
	}
	ran := runVersion(t, pulled)
	if ran.Version != stamped.Version || ran.GitCommit != stamped.Revision {
		t.Errorf("it is %+v", ran)
	}
	documented := pulledSBOM(t, tag, pulled)
	for path, version := range ran.Modules {
		if documented[path] != version {
			t.Errorf("the SBOM has %s %q, the binary %q", path, documented[path], version)
		}
	}
	if len(ran.Modules) != 2 || documented["stdlib"] != strings.TrimPrefix(ran.GoVersion, "go") || documented[b.Info.Main.Path] != stamped.Version {
		t.Errorf("the SBOM has stdlib %q and poolwright %q; the binary is %+v", documented["stdlib"], documented[b.Info.Main.Path], ran)
	}
}

// versionOutput is what poolwright version -o json prints.
type versionOutput struct {
	Version, GitCommit, GoVersion string
	Modules                       map[string]string
}

// runVersion runs poolwright version in what an image unpacks to, as its user where this one may.
func runVersion(t *testing.T, image v1.Image) versionOutput {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("its user is %q", config.Config.User)
	}
	dir := unpack(t, image)
	cmd := exec.CommandContext(t.Context(), config.Config.Entrypoint[0], "version", "-o", "json")
	cmd.Env = []string{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		cmd.Dir = "/"
	} else {
		cmd.Path = filepath.Join(dir, cmd.Path)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var ran versionOutput
	if err := json.Unmarshal(out, &ran); err != nil {
		t.Fatal(err)
	}
	return ran
}

// unpack writes the files of an image into a folder.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	// A user of the image reads it, too.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	names := map[string]bool{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name] = true
		if header.Mode&0o022 != 0 || header.Uid != 0 {
			t.Errorf("%s has mode %o and owner %d", header.Name, header.Mode, header.Uid)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = writeFile(path, reader, os.FileMode(header.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"poolwright", "LICENSE", "NOTICE", "etc/ssl/certs/ca-certificates.crt"} {
		if !names[want] {
			t.Errorf("it has no %s", want)
		}
	}
	return dir
}

func writeFile(path string, from io.Reader, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

// pulledSBOM are the versions by module of the SBOM that refers to an image in a registry.
func pulledSBOM(t *testing.T, tag name.Tag, image v1.Image) map[string]string {
	t.Helper()
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(tag.Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	index, err := referrers.IndexManifest()
	if err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%d artifacts refer to it, %v", len(index.Manifests), err)
	}
	if got := index.Manifests[0].ArtifactType; got != string(product.SPDXMediaType) {
		t.Errorf("what refers to it is of type %q", got)
	}
	artifact, err := remote.Image(tag.Digest(index.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("it has %d layers, %v", len(layers), err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	document, err := spdxjson.Read(content)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, p := range document.Packages {
		versions[p.PackageName] = p.PackageVersion
	}
	return versions
}

func TestTheSameBinariesGiveTheSameDigestsInALayoutThatIsValid(t *testing.T) {
	b := ownBinary(t)
	var indexes [][]byte
	for range 2 {
		a, err := New(root, stamped, []product.Binary{b})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "image")
		if err := errors.Join(a.Write(dir, stamped.Version), a.Write(dir, stamped.Version)); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(filepath.Join(dir, "index.json"))
		if err != nil {
			t.Fatal(err)
		}
		indexes = append(indexes, written)
		read, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(read); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(indexes[0], indexes[1]) {
		t.Errorf("they differ:\n%s\n%s", indexes[0], indexes[1])
	}
}

func TestTheDigestsAndSizesOfAllPlatformsArePrinted(t *testing.T) {
	b := ownBinary(t)
	a, err := New(root, stamped, []product.Binary{b, b})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := a.Print(&out, "dist/image"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "  dist/image") || lines[1] != lines[2] || !strings.Contains(lines[1], b.Platform.String()+", ") {
		t.Errorf("printed %q", lines)
	}
}

func TestCertificatesHaveThoseOfWellKnownAuthorities(t *testing.T) {
	if n := bytes.Count(certificates(), []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("there are %d", n)
	}
}
