package binarypages

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
)

func TestOnlyWhatWasNeverWrittenToIsGivenBack(t *testing.T) {
	const header = " 00000000 00:1e 7  "
	entry := func(at, rights, file, anonymous string) string {
		return at + " " + rights + header + file + "\nSize:               8 kB\nRss:                8 kB\nAnonymous:         " + anonymous + " kB\nVmFlags: rd mr mw me\n"
	}
	text := entry("00400000-00402000", "r-xp", "/bin/poolwright", "0") +
		entry("00402000-00403000", "r--p", "/bin/poolwright", "0") +
		entry("00403000-00404000", "rw-p", "/bin/poolwright", "0") +
		entry("00404000-00405000", "r--p", "/bin/poolwright", "4") +
		entry("00405000-00406000", "r--p", "/lib/other.so", "0") +
		"7fff0000-7fff1000 r-xp" + header + "\nAnonymous:         0 kB\n"
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
	before := residentFile(t)
	if err := Release(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after >= before {
		t.Errorf("%d bytes of files are resident, and were %d before", after, before)
	}
}

// residentFile is how much of files this process has resident, in bytes.
func residentFile(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.NewProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile
}
