package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// packagesPage has a row for each package.
const packagesPage = "docs/packages.md"

var quotedPath = regexp.MustCompile("`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*)`")

// quotedPaths are the paths that a page's tables quote, and those that its sentences do, by line. In sentences only
// what has a slash is one.
func (s *source) quotedPaths(page string) (inTables, inSentences map[string]int) {
	inTables, inSentences = map[string]int{}, map[string]int{}
	n := 0
	for line := range strings.Lines(string(s.texts[page])) {
		n++
		for _, m := range quotedPath.FindAllStringSubmatch(line, -1) {
			switch {
			case strings.HasPrefix(line, "| "):
				inTables[m[1]] = n
			case strings.Contains(m[1], "/"):
				inSentences[m[1]] = n
			}
		}
	}
	return inTables, inSentences
}

// pathsOfPagesExist finds paths in DESIGN.md and in the page of packages that do not exist.
func pathsOfPagesExist(s *source) []string {
	known := map[string]bool{}
	for p := range s.texts {
		for ; p != "."; p = path.Dir(p) {
			known[p] = true
		}
	}
	var out []string
	for _, page := range []string{"DESIGN.md", packagesPage} {
		inTables, inSentences := s.quotedPaths(page)
		for _, quoted := range []map[string]int{inTables, inSentences} {
			for p, n := range quoted {
				if !known[strings.TrimSuffix(p, "/...")] {
					out = append(out, fmt.Sprintf("%s:%d: there is no %s", page, n, p))
				}
			}
		}
	}
	return out
}

// packagesHaveRows finds packages that no table of the page of packages names: by their folder, by one of their files, or
// by a folder above them and "/...", as in patterns of the go command.
func packagesHaveRows(s *source) []string {
	inTables, _ := s.quotedPaths(packagesPage)
	var out []string
	for _, p := range s.packages {
		if !hasRow(inTables, p) {
			out = append(out, fmt.Sprintf("%s: %s has no row for this package", p.dir, packagesPage))
		}
	}
	return out
}

func hasRow(inTables map[string]int, p *pkg) bool {
	if inTables[p.dir] > 0 {
		return true
	}
	for _, f := range append(p.written(), p.tests...) {
		if inTables[f.path] > 0 {
			return true
		}
	}
	for dir := p.dir; dir != "."; dir = path.Dir(dir) {
		if inTables[dir+"/..."] > 0 {
			return true
		}
	}
	return false
}

func TestAPackageHasARowByItsFolderAFileOrAFolderAboveIt(t *testing.T) {
	for row, want := range map[string]int{
		"| x | `a/b` |": 0, "| x | `a/b/x.go` |": 0, "| x | `a/b/x_test.go` |": 0, "| x | `a/...` |": 0, "| x | `a/b/...` |": 0,
		"| x | `a` |": 1, "| x | `a/b/c/...` |": 1, "in `a/b`": 1, "| x | `a/bc` |": 1,
	} {
		s, err := load(fstest.MapFS{
			"a/b/x.go":      {Data: []byte("package x\n")},
			"a/b/x_test.go": {Data: []byte("package x\n")},
			packagesPage:    {Data: []byte(row + "\n")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := packagesHaveRows(s); len(got) != want {
			t.Errorf("by %q: %q", row, got)
		}
	}
}
