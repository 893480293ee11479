package archtest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the numbers of today that are lower into testdata/ratchet.txt")

const ratchetFile = "testdata/ratchet.txt"

// atBudgets is the ratchet of what sits exactly at a budget.
const atBudgets = "values that sit exactly at a budget"

// ratchet is a limit that part of the repository is still over. What is over it is
// recorded with its number, which may only fall.
type ratchet struct {
	name string
	// limit is what a number may be without being recorded.
	limit   int
	measure func(*source) map[string]int
}

var ratchets = []ratchet{
	{"code lines of the composition root", maxRootLines, rootLines},
	{"code lines of a package", maxPackageLines, packageLines},
	{"files of a package", maxPackageFiles, packageFiles},
	{"files of a package in one cycle", maxCycle, fileCycles},
	{"decisions by a sentence", 0, proseDecisions},
	{"declared names with a retired term", 0, retiredTerms},
	{"declared names in tests with a retired term", 0, retiredTermsInTests},
	{"messages with a retired term", 0, retiredInMessages},
	{"comments of exported names with a retired term", 0, retiredInComments},
	{"names of tests with a retired term", 0, retiredInTests},
	{"fields of a struct, with nameless ones'", maxFields, nestedFields},
	{"types of one unexported name", 1, typeMeanings},
	{atBudgets, 0, valuesAtBudgets},
	{"lines of code without a line of test, of 100", 0, untested},
	{"lines of test of reconciler that 2.0 for each line of code lacks, of 200", 0, missingTests},
	{"contract packages without an Example", 0, contractsWithoutExample},
}

// key names one recorded number.
type key struct{ ratchet, subject string }

// readRatchets reads lines of a number, a tab, a ratchet's name, a tab and a subject.
func readRatchets(content []byte) (map[key]int, error) {
	out := map[key]int{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q has %d fields, want a number, a ratchet and a subject", line, len(fields))
		}
		n, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, err
		}
		out[key{fields[1], fields[2]}] = n
	}
	return out, nil
}

// over returns the numbers of a ratchet that are over its limit.
func (r ratchet) over(s *source) map[key]int {
	out := map[key]int{}
	for subject, n := range r.measure(s) {
		if n > r.limit {
			out[key{r.name, subject}] = n
		}
	}
	return out
}

// compareRatchets lists the numbers that have grown, and whether others have fallen.
func compareRatchets(recorded, now map[key]int) (grown, lowered []string) {
	for k, n := range now {
		if n > recorded[k] {
			grown = append(grown, fmt.Sprintf("%s: %s: %d, recorded %d", k.ratchet, k.subject, n, recorded[k]))
		}
	}
	for k, n := range recorded {
		if now[k] < n {
			lowered = append(lowered, fmt.Sprintf("%s: %s: %d, recorded %d", k.ratchet, k.subject, now[k], n))
		}
	}
	slices.Sort(grown)
	slices.Sort(lowered)
	return grown, lowered
}

func writeRatchets(t *testing.T, numbers map[key]int) {
	t.Helper()
	var lines []string
	for k, n := range numbers {
		lines = append(lines, fmt.Sprintf("%d\t%s\t%s\n", n, k.ratchet, k.subject))
	}
	slices.SortFunc(lines, func(a, b string) int {
		_, a, _ = strings.Cut(a, "\t")
		_, b, _ = strings.Cut(b, "\t")
		return strings.Compare(a, b)
	})
	if err := os.WriteFile(ratchetFile, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsOverALimitOnlyFalls(t *testing.T) {
	content, err := os.ReadFile(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := readRatchets(content)
	if err != nil {
		t.Fatal(err)
	}
	s, now := repository(t), map[key]int{}
	for _, r := range ratchets {
		maps.Copy(now, r.over(s))
	}
	grown, lowered := compareRatchets(recorded, now)
	for _, finding := range grown {
		t.Error(finding)
	}
	if len(grown) > 0 || len(lowered) == 0 {
		return
	}
	if *update {
		writeRatchets(t, now)
		return
	}
	t.Errorf("%d numbers have fallen: record them with -update:\n%s", len(lowered), strings.Join(lowered, "\n"))
}

// A ratchet is shown a repository that keeps its limit and one that does not.
func TestEveryRatchetCounts(t *testing.T) {
	covered := map[string]bool{}
	for _, tt := range ratchetCases() {
		covered[tt.ratchet] = true
		t.Run(tt.ratchet+"/"+tt.why, func(t *testing.T) {
			i := slices.IndexFunc(ratchets, func(r ratchet) bool { return r.name == tt.ratchet })
			if i < 0 {
				t.Fatal("there is no such ratchet")
			}
			if got := ratchets[i].over(parsed(t, tt.bad)); got[key{tt.ratchet, tt.subject}] != tt.want || len(got) != 1 {
				t.Errorf("of the bad source: %v, want %d for %q", got, tt.want, tt.subject)
			}
			if got := ratchets[i].over(parsed(t, tt.good)); len(got) != 0 {
				t.Errorf("of the good source: %v", got)
			}
		})
	}
	for _, r := range ratchets {
		if !covered[r.name] {
			t.Errorf("no bad source for %q", r.name)
		}
	}
}

// An excuse that nothing needs any more would hide the next finding.
func TestEveryExcuseForTextsOfOthersIsUsed(t *testing.T) {
	found := proseDecisions(repository(t))
	for path, excused := range foreign {
		if n, there := found[path]; !there || n < 0 {
			t.Errorf("%s decides by fewer than %d texts of others", path, excused)
		}
	}
}

func TestARecordedNumberMayOnlyFall(t *testing.T) {
	k := key{"r", "s"}
	grown, lowered := compareRatchets(map[key]int{k: 3, {"r", "gone"}: 2}, map[key]int{k: 4, {"r", "new"}: 1})
	if len(grown) != 2 || len(lowered) != 1 {
		t.Errorf("grown %q, lowered %q", grown, lowered)
	}
	if _, err := readRatchets([]byte("x\ty\n")); err == nil {
		t.Error("a line without a subject is read")
	}
	got, err := readRatchets([]byte("7\ta b\tc\n"))
	if err != nil || got[key{"a b", "c"}] != 7 {
		t.Errorf("read %v, %v", got, err)
	}
}

// chain returns the longest chain of packages each of which imports the next.
func chain(s *source) []string {
	packages := map[string]*pkg{}
	for _, p := range s.packages {
		packages[p.dir] = p
	}
	longest := map[string][]string{}
	var from func(dir string) []string
	from = func(dir string) []string {
		if out, known := longest[dir]; known {
			return out
		}
		var below []string
		for _, f := range packages[dir].files {
			for i := range imports(f) {
				if next, ok := ours(i); ok && packages[next] != nil {
					if c := from(next); len(c) > len(below) || len(c) == len(below) && slices.Compare(c, below) < 0 {
						below = c
					}
				}
			}
		}
		longest[dir] = append([]string{dir}, below...)
		return longest[dir]
	}
	var out []string
	for _, p := range s.packages {
		if c := from(p.dir); len(c) > len(out) {
			out = c
		}
	}
	return out
}

func TestTheLongestChainOfImports(t *testing.T) {
	x := chain(parsed(t, map[string]string{"a/x.go": importing(module+"/b", module+"/c"), "b/x.go": importing(module + "/c"), "c/x.go": importing("fmt")}))
	if !slices.Equal(x, []string{"a", "b", "c"}) {
		t.Errorf("the longest chain is %q", x)
	}
	longest := chain(repository(t))
	t.Logf("%d packages: %s", len(longest), strings.Join(longest, " → "))
}
