// Package golden holds what a test made against a golden file, which is a file of
// the repository that holds what the test should make. It is for tests only: it
// registers the flag -update, which rewrites the files instead. One package does
// so, since a test binary cannot register a flag twice.
//
// It refuses to be imported by anything but tests, which cmd/internal/archtest
// watches over, and to make a golden file that nobody requested: where one is missing,
// the test fails. Start reading at Compare.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Updating reports whether golden files are to be rewritten: the test was given
// -update, which by default is off. It is for tests that keep only a part of a
// file, and so write it themselves; all others call Compare.
func Updating() bool { return *update }

// Compare fails the test where the golden file at path, relative to the test's
// package, holds something else than got; the test goes on. It ends the test where
// the file is missing or cannot be read. With -update it writes the file instead,
// makes the folders that it needs, and ends the test where it cannot.
func Compare[T string | []byte](t testing.TB, path string, got T) {
	t.Helper()
	if Updating() {
		if err := write(path, []byte(got)); err != nil {
			t.Fatalf("rewriting the golden file %s: %v", path, err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is no golden file %s; if it is to be new, go test with -update makes it", path)
	}
	if err != nil {
		t.Fatalf("reading the golden file %s: %v", path, err)
	}
	// As strings, whose differences are shown by line.
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		// The package's name is missing, since go test prints it below.
		t.Errorf("this differs from the golden file %s; if that is meant, go test with -update rewrites it, and make golden rewrites all (-golden +got):\n%s", path, diff)
	}
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
