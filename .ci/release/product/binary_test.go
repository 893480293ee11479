package product

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestABinaryOfAnotherPlatformIsRefused(t *testing.T) {
	if _, known := ELFMachine(runtime.GOARCH); runtime.GOOS != "linux" || !known {
		t.Skip("this machine has another platform")
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for _, platform := range []v1.Platform{{OS: "linux", Architecture: other}, {OS: "darwin", Architecture: runtime.GOARCH}, {OS: "linux", Architecture: "riscv64"}} {
		if _, err := Inspect(platform, own); err == nil {
			t.Errorf("it was taken for %s", platform)
		}
	}
}

func TestWhatIsNoBinaryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "poolwright")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(v1.Platform{OS: "linux", Architecture: "amd64"}, path); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("got %v", err)
	}
}
