// Package product builds the product's binary for a platform, and documents what it was built
// from. It refuses a binary that is not of the platform that it was built for. Start reading at
// Build.
package product

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// CompressionLevel is gzip's for what a release has of binaries. The best, 9, takes 3.5 times as long for half a percent less.
const CompressionLevel = 8

// Release is what is stamped into a binary and an image.
type Release struct {
	// Version is a semantic version, or dev; Revision is the commit.
	Version, Revision string
	// Repository is that of the release's images, and empty where only an image is made.
	Repository string
	// Created is the commit's time.
	Created time.Time
}

// Binary is the product for a platform.
type Binary struct {
	// Platform is an operating system and an architecture, as GOOS and GOARCH have them.
	Platform v1.Platform
	// Path is where it lies.
	Path string
	// Info has the modules that it was built from.
	Info *debug.BuildInfo
}

// Build builds the product of a clone to a path, with further flags of go build. With -trimpath the
// same sources give the same bytes anywhere.
func Build(ctx context.Context, root string, r Release, platform v1.Platform, path string, flags ...string) (Binary, error) {
	const stamps = "github.com/poolwright/poolwright/cmd/internal/cli."
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-buildvcs=false",
		"-ldflags", "-s -w -X " + stamps + "version=" + r.Version + " -X " + stamps + "revision=" + r.Revision + " -X " + stamps + "imageRepository=" + r.Repository,
		"-o", path}, flags, []string{"./cmd/poolwright"})...)
	// go build removes its own temporary folder when it is interrupted, and not when it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return Binary{}, fmt.Errorf("building for %s: %w\n%s", platform, err, out)
	}
	return Inspect(platform, path)
}

// ELFMachine is the ELF machine of a GOARCH that the product is built for.
func ELFMachine(architecture string) (elf.Machine, bool) {
	machine, known := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture]
	return machine, known
}

// Inspect reads a binary, which must be one of that platform.
func Inspect(platform v1.Platform, path string) (Binary, error) {
	var err error
	switch platform.OS {
	case "linux":
		err = inspectELF(platform, path)
	case "darwin":
		err = inspectMachO(platform, path)
	default:
		err = fmt.Errorf("the product is not built for %s", platform)
	}
	if err != nil {
		return Binary{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Binary{}, fmt.Errorf("reading what the binary for %s was built from: %w", platform, err)
	}
	return Binary{Platform: platform, Path: path, Info: info}, nil
}

func inspectELF(platform v1.Platform, path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading the binary for %s: %w", platform, err)
	}
	defer func() { _ = file.Close() }()
	if want, known := ELFMachine(platform.Architecture); !known || file.Machine != want {
		return fmt.Errorf("the binary for %s is one of linux and %s", platform, file.Machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("the binary for %s needs a dynamic linker, which the image does not have", platform)
		}
	}
	return nil
}

func inspectMachO(platform v1.Platform, path string) error {
	file, err := macho.Open(path)
	if err != nil {
		return fmt.Errorf("reading the binary for %s: %w", platform, err)
	}
	defer func() { _ = file.Close() }()
	want, known := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[platform.Architecture]
	if !known || file.Cpu != want {
		return fmt.Errorf("the binary for %s is one of darwin and %s", platform, file.Cpu)
	}
	return nil
}
