package unified

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferencesReadAsThoseOfDiffU(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"equal texts": {"a\nb\n", "a\nb\n", ""},
		"one line":    {"a\nb\nc\n", "a\nB\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		"a new file":  {"", "a\n", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"},
		"an end without a line break": {"a\nb", "a\nb\n",
			"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		"two places far from each other": {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n2\n3\n4\n5\n6\n7\n8\n0\n",
			"--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-1\n+0\n 2\n 3\n 4\n@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+0\n"},
		"two places near each other": {"1\n2\n3\n4\n5\n6\n7\n8\n", "0\n2\n3\n4\n5\n6\n7\n0\n",
			"--- a/f\n+++ b/f\n@@ -1,8 +1,8 @@\n-1\n+0\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+0\n"},
		"a line that moves": {"a\nb\nc\n", "b\nc\na\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-a\n b\n c\n+a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Diff("f", []byte(c.before), []byte(c.after))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextsWithoutAnythingInCommonAreReplaced(t *testing.T) {
	before, after := strings.Repeat("a\n", 900), strings.Repeat("b\n", 900)
	got := Diff("f", []byte(before), []byte(after))
	if strings.Count(got, "\n-a") != 900 || strings.Count(got, "\n+b") != 900 {
		t.Errorf("%d bytes", len(got))
	}
}

// What patch(1) makes of a difference is the new text.
func FuzzADifferenceLeadsFromTheOldTextToTheNew(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd\n")
	f.Add("a", "a\n")
	f.Add("", "x\ny")
	f.Fuzz(func(t *testing.T, before, after string) {
		if got := patched(Diff("f", []byte(before), []byte(after)), before); got != after {
			t.Errorf("%q, %q: %q", before, after, got)
		}
	})
}

// patched applies a difference.
func patched(diff, before string) string {
	if diff == "" {
		return before
	}
	old := lines(before + "\x00")
	if last := len(old) - 1; old[last] == "\x00" {
		old = old[:last]
	} else {
		old[last] = strings.TrimSuffix(old[last], "\x00")
	}
	var out []string
	at := 0
	var removed []byte
	for _, l := range strings.SplitAfter(diff, "\n")[2:] {
		switch {
		case strings.HasPrefix(l, "@@"):
			var from, count int
			spec := strings.TrimPrefix(strings.Fields(l)[1], "-")
			from, count = parse(spec)
			if count > 0 {
				from--
			}
			out = append(out, old[at:from]...)
			at = from
		case strings.HasPrefix(l, "\\"):
			if removed[len(removed)-1] != '-' {
				out[len(out)-1] = strings.TrimSuffix(out[len(out)-1], "\n")
			}
			continue
		case l == "":
			continue
		case l[0] == '-':
			at++
		case l[0] == ' ':
			out = append(out, l[1:])
			at++
		case l[0] == '+':
			out = append(out, l[1:])
		}
		if l != "" {
			removed = append(removed, l[0])
		}
	}
	return strings.Join(append(out, old[at:]...), "")
}

func parse(spec string) (from, count int) {
	first, second, ok := strings.Cut(spec, ",")
	number := func(s string) int {
		n := 0
		for _, r := range s {
			n = n*10 + int(r-'0')
		}
		return n
	}
	if count = 1; ok {
		count = number(second)
	}
	return number(first), count
}

func TestPatchParsesADifference(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("there is no patch on this machine")
	}
	before, after := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", "a\nc\nd\ne\nf\ng\nx\nh\ni\nj\ny\n"
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(patch, "-s", file)
	cmd.Stdin = strings.NewReader(Diff("f", []byte(before), []byte(after)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
