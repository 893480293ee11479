package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is the controller for a platform.
type binary struct {
	platform v1.Platform
	path     string
	// info has the modules that it was built from.
	info *debug.BuildInfo
}

// build builds the controller of a clone to a path, with further flags of go build.
func build(ctx context.Context, root string, r release, platform v1.Platform, path string, flags ...string) (binary, error) {
	const stamps = "github.com/poolwright/poolwright/cmd/internal/cli."
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-buildvcs=false",
		"-ldflags", "-s -w -X " + stamps + "version=" + r.version + " -X " + stamps + "revision=" + r.revision,
		"-o", path}, flags, []string{"./cmd/poolwright"})...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return binary{}, fmt.Errorf("building for %s: %w\n%s", platform, err, out)
	}
	return inspect(platform, path)
}

// machines are the ELF machines of GOARCHes.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// inspect reads a binary, which must be one of that platform.
func inspect(platform v1.Platform, path string) (binary, error) {
	file, err := elf.Open(path)
	if err != nil {
		return binary{}, fmt.Errorf("reading the binary for %s: %w", platform, err)
	}
	defer func() { _ = file.Close() }()
	if want, known := machines[platform.Architecture]; !known || file.Machine != want || platform.OS != "linux" {
		return binary{}, fmt.Errorf("the binary for %s is one of linux and %s", platform, file.Machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return binary{}, fmt.Errorf("the binary for %s needs a dynamic linker, which the image does not have", platform)
		}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, fmt.Errorf("reading what the binary for %s was built from: %w", platform, err)
	}
	return binary{platform: platform, path: path, info: info}, nil
}
