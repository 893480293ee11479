package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/poolwright/poolwright"

// findRoot walks up from dir to the folder whose go.mod is ours. Nested
// modules on the way are passed by: their module line differs.
func findRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the repository from %q: %w", dir, err)
	}
	for at := start; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && declares(string(content), modulePath) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod of %s in %s or above it: the sandbox builds its programs from source, so run it inside a clone of the repository", modulePath, start)
		}
	}
}

func declares(goMod, module string) bool {
	for line := range strings.Lines(goMod) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`) == module
		}
	}
	return false
}

// key hashes everything that decides the binary. The C compiler is left out:
// its version changes no behaviour that the sandbox uses, and reading it costs a
// process.
func (b *Builder) key(ctx context.Context, p Program) (string, error) {
	toolchain, err := b.run(ctx, p, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %t %q %q\n", toolchain, p.Tags, p.LDFlags, p.CGO, p.Links, p.Assets)
	if err := hashSources(sum, filepath.Join(b.root, p.Dir)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// hashSources writes names, lengths and contents in walking order, which is
// sorted. Tests and hidden files do not reach the binary.
func hashSources(sum io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if path != dir && (strings.HasPrefix(name, ".") || name == "testdata") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%q %d\n%s", filepath.ToSlash(relative), len(content), content)
		return err
	})
}
