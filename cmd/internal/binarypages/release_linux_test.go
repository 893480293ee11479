package binarypages

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyWhatWasNeverWrittenToIsGivenBack(t *testing.T) {
	const header = " 00000000 00:1e 7  "
	entry := func(at, permissions, file, anonymous, swap string) string {
		return at + " " + permissions + header + file + "\nSize:               8 kB\nRss:                8 kB\nAnonymous:         " + anonymous + " kB\nSwap:              " + swap + " kB\nVmFlags: rd mr mw me\n"
	}
	text := entry("00400000-00402000", "r-xp", "/bin/poolwright", "0", "0") +
		entry("00402000-00403000", "r--p", "/bin/poolwright", "0", "0") +
		entry("00403000-00404000", "rw-p", "/bin/poolwright", "0", "0") +
		entry("00404000-00405000", "r--p", "/bin/poolwright", "4", "0") +
		entry("00405000-00406000", "r--p", "/lib/other.so", "0", "0") +
		entry("00406000-00407000", "r--p", "/bin/poolwright", "0", "4") +
		"00407000-00408000 r--p" + header + "/bin/poolwright\nSwap:              0 kB\n" +
		"7fff0000-7fff1000 r-xp" + header + "\nAnonymous:         0 kB\nSwap:              0 kB\n"
	got, err := mappings(strings.NewReader(text), "/bin/poolwright")
	if err != nil {
		t.Fatal(err)
	}
	want := []addresses{{0x400000, 0x402000}, {0x402000, 0x403000}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(addresses{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := mappings(strings.NewReader("what is this\n"), "f"); err == nil {
		t.Error("what cannot be read was read")
	}
}

// The start of this very process has mapped pages that nothing needs any more.
func TestLessIsResidentAndTheProcessGoesOn(t *testing.T) {
	before := resident(t)
	if err := Release(); err != nil {
		t.Fatal(err)
	}
	if after := resident(t); after >= before {
		t.Errorf("%d KiB of the program are resident, and were %d before", after, before)
	}
}

// resident is how much of what Release gives back this process has resident, in KiB: other mappings of files, such
// as those of a library, may grow meanwhile.
func resident(t *testing.T) int {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	released, err := mappings(bytes.NewReader(smaps), program)
	if err != nil || len(released) == 0 {
		t.Fatalf("%d mappings, %v", len(released), err)
	}
	total := 0
	for _, m := range released {
		found := regexp.MustCompile(fmt.Sprintf(`(?m)^%08x-%08x .*\n(?:.*\n)*?Rss: +(\d+) kB$`, m.start, m.end)).FindSubmatch(smaps)
		if found == nil {
			t.Fatalf("the mapping at %x has no Rss", m.start)
		}
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}
