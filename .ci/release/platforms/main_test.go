package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// clone is a folder with a small product, and a file for one platform only.
func clone(t *testing.T, darwin string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                      "module example.com/small\n\ngo 1.27.0\n",
		"cmd/poolwright/main.go":      "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(code()) }\n",
		"cmd/poolwright/linux.go":     "//go:build linux\n\npackage main\n\nimport \"syscall\"\n\nfunc code() int { return syscall.EPOLLIN }\n",
		"cmd/poolwright/a_darwin.go":  darwin,
		"cmd/poolwright/a_windows.go": "package main\n\nfunc code() string { return \"\" }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEachPlatformIsCheckedByItsOwnFiles(t *testing.T) {
	for name, test := range map[string]struct{ darwin, want string }{
		"all are valid":                      {"package main\n\nimport \"syscall\"\n\nfunc code() int { return syscall.EVFILT_READ }\n", ""},
		"a name that only Linux has":         {"package main\n\nimport \"syscall\"\n\nfunc code() int { return syscall.EPOLLIN }\n", "undefined: syscall.EPOLLIN"},
		"a function that is not there":       {"package main\n", "undefined: code"},
		"another type":                       {"package main\n\nfunc code() string { return \"\" }\n", "cannot use code()"},
		"a package that is not there at all": {"package main\n\nimport \"example.com/none\"\n\nfunc code() int { return none.Code }\n", "example.com/none"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := run(t.Context(), clone(t, test.darwin), &out)
			if test.want == "" {
				if err != nil || strings.Count(out.String(), "1 packages of the product") < 3 {
					t.Errorf("%v:\n%s", err, out.String())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "darwin/") || strings.Contains(err.Error(), "linux/") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if err := run(t.Context(), t.TempDir(), io.Discard); err == nil {
		t.Error("a folder without a product is valid")
	}
}
