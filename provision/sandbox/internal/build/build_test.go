package build_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
)

// rootEnv makes this test binary build the tiny program of a fake repository,
// as another process would.
const rootEnv = "BUILD_TEST_ROOT"

func TestMain(m *testing.M) {
	root := os.Getenv(rootEnv)
	if root == "" {
		os.Exit(m.Run())
	}
	builder, err := build.New(root, os.Stdout)
	if err == nil {
		_, err = builder.Ensure(context.Background(), tiny())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func tiny() build.Program {
	return build.Program{Name: "tiny", Dir: "tools/tiny", Links: []string{"alias"}}
}

const program = `package main

import (
	"os"
	"path/filepath"
)

var word = "hello"

func main() { _, _ = os.Stdout.WriteString(word + " from " + filepath.Base(os.Args[0])) }
`

// repository is a clone with a program in a nested module, and an empty cache.
func repository(t *testing.T) string {
	t.Helper()
	t.Setenv(build.CacheEnv, "")
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module github.com/poolwright/poolwright\n\ngo 1.26\n")
	write(t, filepath.Join(root, "tools/tiny/go.mod"), "module example.com/tiny\n\ngo 1.26\n")
	write(t, filepath.Join(root, "tools/tiny/main.go"), program)
	return root
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ensure(t *testing.T, root string, p build.Program) (build.Built, string) {
	t.Helper()
	var got bytes.Buffer
	builder, err := build.New(root, &got)
	if err != nil {
		t.Fatal(err)
	}
	built, err := builder.Ensure(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return built, got.String()
}

func output(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command(path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAProgramIsBuiltOnceAndKept(t *testing.T) {
	root := repository(t)
	first, got := ensure(t, root, tiny())
	if !strings.Contains(got, "building tiny") || !strings.Contains(got, "built tiny") {
		t.Errorf("the build was silent: %q", got)
	}
	if filepath.Dir(first.Dir) != filepath.Join(root, ".cache") {
		t.Errorf("the program is in %s", first.Dir)
	}
	if got := output(t, first.Path); got != "hello from tiny" {
		t.Errorf("got %q", got)
	}
	if got := output(t, first.Tool("alias")); got != "hello from alias" {
		t.Errorf("the link says %q", got)
	}
	second, got := ensure(t, filepath.Join(root, "tools", "tiny"), tiny())
	if second != first || got != "" {
		t.Errorf("the second call gave %v and said %q", second, got)
	}
}

func TestTheKeyFollowsWhatDecidesTheBinary(t *testing.T) {
	root := repository(t)
	first, _ := ensure(t, root, tiny())
	t.Run("a test file and a hidden file do not count", func(t *testing.T) {
		write(t, filepath.Join(root, "tools/tiny/main_test.go"), "package main\n")
		write(t, filepath.Join(root, "tools/tiny/.editor"), "x")
		if again, _ := ensure(t, root, tiny()); again != first {
			t.Errorf("got another folder: %s", again.Dir)
		}
	})
	t.Run("the linker's flags count", func(t *testing.T) {
		p := tiny()
		p.LDFlags = "-X main.word=bye"
		other, _ := ensure(t, root, p)
		if got := output(t, other.Path); got != "bye from tiny" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a changed source counts, and the old build stays", func(t *testing.T) {
		write(t, filepath.Join(root, "tools/tiny/main.go"), strings.Replace(program, "hello", "moin", 1))
		other, _ := ensure(t, root, tiny())
		if got := output(t, other.Path); got != "moin from tiny" {
			t.Errorf("got %q", got)
		}
		if got := output(t, first.Path); got != "hello from tiny" {
			t.Errorf("the old build says %q", got)
		}
	})
	t.Run("go.mod counts", func(t *testing.T) {
		before, _ := ensure(t, root, tiny())
		write(t, filepath.Join(root, "tools/tiny/go.mod"), "module example.com/tiny\n\ngo 1.26.0\n")
		if after, _ := ensure(t, root, tiny()); after == before {
			t.Error("got the same folder")
		}
	})
}

func TestTwoProcessesBuildOnce(t *testing.T) {
	root := repository(t)
	const processes = 4
	outputs := make(chan string, processes)
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), rootEnv+"="+root)
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				out = append(out, err.Error()...)
			}
			outputs <- string(out)
		}()
	}
	builds := 0
	for range processes {
		got := <-outputs
		builds += strings.Count(got, "built tiny")
		if strings.Contains(got, "exit status") {
			t.Error(got)
		}
	}
	if builds != 1 {
		t.Errorf("built %d times", builds)
	}
}

func TestAnUnfinishedBuildIsNeverUsed(t *testing.T) {
	root := repository(t)
	leftover := filepath.Join(root, ".cache", ".new-tiny-killed")
	write(t, filepath.Join(leftover, "tiny"), "half a binary")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	builder, err := build.New(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builder.Ensure(ctx, tiny()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled build returned %v", err)
	}
	write(t, filepath.Join(root, "tools/tiny/main.go"), "package main\n\nfunc main() { undefined() }\n")
	if _, err := builder.Ensure(t.Context(), tiny()); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("the compiler's words are missing: %v", err)
	}
	if left := entries(t, root); !slices.Equal(left, []string{"tiny.lock"}) {
		t.Errorf("the cache holds %v", left)
	}
	write(t, filepath.Join(root, "tools/tiny/main.go"), program)
	built, _ := ensure(t, root, tiny())
	if got := output(t, built.Path); got != "hello from tiny" {
		t.Errorf("got %q", got)
	}
}

func entries(t *testing.T, root string) []string {
	t.Helper()
	found, err := os.ReadDir(filepath.Join(root, ".cache"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names
}

func TestTheUsersGoSettingsDoNotReachTheBuild(t *testing.T) {
	root := repository(t)
	write(t, filepath.Join(root, "go.work"), "go 1.26\n\nuse .\n") // would refuse the nested module
	t.Setenv("GOFLAGS", "-mod=vendor")
	t.Setenv("GOOS", "plan9")
	t.Setenv("GOTOOLCHAIN", "go1.999.0") // no such release
	built, _ := ensure(t, root, tiny())
	if got := output(t, built.Path); got != "hello from tiny" {
		t.Errorf("got %q", got)
	}
}

func TestTheCacheCanBeMoved(t *testing.T) {
	root := repository(t)
	moved := t.TempDir()
	t.Setenv(build.CacheEnv, moved)
	built, _ := ensure(t, root, tiny())
	if filepath.Dir(built.Dir) != moved {
		t.Errorf("the program is in %s", built.Dir)
	}
}

func TestOutsideACloneTheErrorNamesTheRemedy(t *testing.T) {
	other := t.TempDir()
	write(t, filepath.Join(other, "go.mod"), "module example.com/other\n")
	_, err := build.New(other, nil)
	if err == nil || !strings.Contains(err.Error(), "run it inside a clone") {
		t.Errorf("got %v", err)
	}
}

func TestAMissingCompilerIsNamed(t *testing.T) {
	root := repository(t)
	t.Setenv("CC", "no-such-compiler")
	p := tiny()
	p.CGO = true
	builder, err := build.New(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builder.Ensure(t.Context(), p); err == nil || !strings.Contains(err.Error(), `C compiler "no-such-compiler" was not found: install`) {
		t.Errorf("got %v", err)
	}
}

// The versions that programs report are written down by hand: a module does not
// know its own tag.
func TestReportedVersionsAreThePinnedOnes(t *testing.T) {
	for file, wants := range map[string][]string{
		"../../controlplane/go.mod": {"k8s.io/kubernetes v1.36.3", "k8s.io/kubectl v0.36.3", "go.etcd.io/etcd/server/v3 v3.6.14"},
		"../../forge/go.mod":        {"code.gitea.io/gitea v1.26.4"},
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(content), want+"\n") {
				t.Errorf("%s does not pin %s", file, want)
			}
		}
	}
	for _, want := range []string{"gitVersion=v1.36.3", "gitMajor=1 ", "gitMinor=36 "} {
		if !strings.Contains(build.ControlPlane().LDFlags, want) {
			t.Errorf("the control plane is not linked with %s", want)
		}
	}
	source, err := os.ReadFile("../../forge/main.go")
	if err != nil || !strings.Contains(string(source), `const version = "1.26.4"`) {
		t.Errorf("the forge reports another version: %v", err)
	}
}
