package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// compile runs `go build` for p into the file out.
func (b *Builder) compile(ctx context.Context, p Program, out string) error {
	if p.CGO {
		if err := b.findCompiler(ctx, p); err != nil {
			return err
		}
	}
	args := []string{"build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-o", out,
		"-ldflags", strings.TrimSpace("-s -w " + p.LDFlags)}
	if len(p.Tags) > 0 {
		args = append(args, "-tags", strings.Join(p.Tags, ","))
	}
	if _, err := b.run(ctx, p, append(args, ".")...); err != nil {
		return err
	}
	return nil
}

func (b *Builder) findCompiler(ctx context.Context, p Program) error {
	output, err := b.run(ctx, p, "env", "CC")
	if err != nil {
		return err
	}
	fields := strings.Fields(output)
	if len(fields) == 0 {
		return errors.New("no C compiler is configured: install gcc or clang, or set CC")
	}
	if _, err := exec.LookPath(fields[0]); err != nil {
		return fmt.Errorf("the C compiler %q was not found: install gcc or clang, or set CC", fields[0])
	}
	return nil
}

// run calls the go tool in the program's folder and returns what it printed.
func (b *Builder) run(ctx context.Context, p Program, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.root, p.Dir)
	cmd.Env = goEnv(p)
	// On an interrupt the go tool stops its compilers too; a kill would leave
	// them running.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return strings.TrimSpace(stdout.String()), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("running go %s: %w", args[0], ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("the go command was not found: install Go 1.21 or newer and put it into PATH")
	}
	return "", fmt.Errorf("running go %s in %s: %w\n%s", args[0], p.Dir, err, lastLines(stderr.String(), 20))
}

// goEnv is the user's environment without what would build something else: a
// workspace or vendor flags refuse nested modules, a cross-compilation target
// makes a binary that cannot run here. The Go version is this program's own, since
// the machine's may be older than the modules need and set to stay (GOTOOLCHAIN=local).
func goEnv(p Program) []string {
	cgo := "0"
	if p.CGO {
		cgo = "1"
	}
	env := make([]string, 0, len(os.Environ())+6)
	for _, pair := range os.Environ() {
		switch name, _, _ := strings.Cut(pair, "="); name {
		case "GOFLAGS", "GOWORK", "GOOS", "GOARCH", "CGO_ENABLED", "GOTOOLCHAIN":
		default:
			env = append(env, pair)
		}
	}
	return append(env, "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN="+ownToolchain(), "CGO_ENABLED="+cgo, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// ownToolchain is the GOTOOLCHAIN by which the go command builds with the version that
// built this program, or with a newer one where a module needs it.
func ownToolchain() string {
	version, _, _ := strings.Cut(runtime.Version(), " ")
	if !strings.HasPrefix(version, "go1") {
		return "auto" // A version of nobody's release, such as "devel".
	}
	return version + "+auto"
}

// furnish puts links and assets beside the binary.
func (b *Builder) furnish(ctx context.Context, p Program, dir string) error {
	for _, name := range p.Links {
		if err := os.Symlink(p.Name, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	if p.Assets.Module == "" {
		return nil
	}
	source, err := b.run(ctx, p, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", p.Assets.Module)
	if err != nil {
		return err
	}
	for _, folder := range p.Assets.Folders {
		if err := copyTree(filepath.Join(dir, folder), filepath.Join(source, folder)); err != nil {
			return fmt.Errorf("copying %s of %s: %w", folder, p.Assets.Module, err)
		}
	}
	return nil
}

// copyTree copies plain files and folders. Files of the module cache are
// read-only; the copies are not, so that the cache can be deleted with rm.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
