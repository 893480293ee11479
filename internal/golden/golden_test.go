package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// fakeTB is a test that Compare fails, instead of the one that runs.
type fakeTB struct {
	testing.TB

	reported      []string
	failed, ended bool
}

func (p *fakeTB) Helper() {}

func (p *fakeTB) Errorf(format string, args ...any) {
	p.reported, p.failed = append(p.reported, fmt.Sprintf(format, args...)), true
}

func (p *fakeTB) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	p.ended = true
	runtime.Goexit()
}

// compared is what comes of a test that compares got with the file at path.
func compared(t *testing.T, updating bool, path, got string) *fakeTB {
	t.Helper()
	set(t, updating)
	p, done := &fakeTB{TB: t}, make(chan struct{})
	go func() { // Fatalf ends only this goroutine
		defer close(done)
		Compare(p, path, got)
	}()
	<-done
	return p
}

// set gives the flag a value, whatever the command line says, until the test ends.
func set(t *testing.T, updating bool) {
	t.Helper()
	was := strconv.FormatBool(Updating())
	t.Cleanup(func() { flag.Set("update", was) })
	if err := flag.Set("update", strconv.FormatBool(updating)); err != nil {
		t.Fatal(err)
	}
}

// kept writes a golden file and returns its path.
func kept(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.golden")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTextThatIsEqualPasses(t *testing.T) {
	path := kept(t, "one\ntwo\n")
	if p := compared(t, false, path, "one\ntwo\n"); p.failed {
		t.Errorf("it failed: %q", p.reported)
	}
	Compare(t, path, []byte("one\ntwo\n"))
}

func TestTextThatDiffersFailsAndNamesTheCommandThatRewritesIt(t *testing.T) {
	path := kept(t, "one\ntwo\n")
	p := compared(t, false, path, "one\nthree\n")
	if !p.failed || p.ended || len(p.reported) != 1 {
		t.Fatalf("failed %t, ended %t: %q", p.failed, p.ended, p.reported)
	}
	for _, want := range []string{path, "-update", "make golden", "two", "three"} {
		if !strings.Contains(p.reported[0], want) {
			t.Errorf("%q does not say %q", p.reported[0], want)
		}
	}
	if got := content(t, path); got != "one\ntwo\n" {
		t.Errorf("the golden file became %q", got)
	}
}

func TestAMissingFileFailsAndIsNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing.golden")
	p := compared(t, false, path, "")
	if !p.failed || !p.ended || len(p.reported) != 1 || !strings.Contains(p.reported[0], "there is no golden file "+path) || !strings.Contains(p.reported[0], "-update") {
		t.Errorf("failed %t, ended %t: %q", p.failed, p.ended, p.reported)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the golden file was made")
	}
}

func TestAFileThatCannotBeReadOrWrittenEndsTheTest(t *testing.T) {
	for _, updating := range []bool{false, true} {
		folder := t.TempDir()
		p := compared(t, updating, folder, "one\n")
		if !p.ended || len(p.reported) != 1 || !strings.Contains(p.reported[0], folder) {
			t.Errorf("updating %t: ended %t: %q", updating, p.ended, p.reported)
		}
	}
}

func TestUpdatingRewritesAndMakesFolders(t *testing.T) {
	for name, path := range map[string]string{"a file that differs": kept(t, "longer than before\n"), "no folder": filepath.Join(t.TempDir(), "a", "b", "new.golden")} {
		if p := compared(t, true, path, "one\n"); p.failed {
			t.Errorf("%s: it failed: %q", name, p.reported)
		}
		if got := content(t, path); got != "one\n" {
			t.Errorf("%s: the golden file became %q", name, got)
		}
	}
}
