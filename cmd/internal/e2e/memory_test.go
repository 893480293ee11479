package e2e

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// memoryLimit is what the controller may take at its peak with the engine off
// and 2,000 objects under management. It takes about 105 MiB, built as it is shipped, of which
// 50 are pages of the binary: 30 more are given back after the start, which takes 95 itself.
const memoryLimit = 125 << 20

var manyObjects = flag.Int("objects", 2000, "objects with which TestTheControllerStaysSmallWithThousandsOfObjects measures the controller")

func TestTheControllerStaysSmallWithThousandsOfObjects(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "memory")
	writeObjects(s.repo, s.apps, *manyObjects)
	s.declare("v1", "few")
	s.repo.commit("Declare many objects")
	c := s.start()
	s.follow()
	s.ready()
	s.handled()
	if n := int(s.sync().Status.Objects); n < *manyObjects {
		t.Fatalf("%d objects are managed", n)
	}
	m := memory(t, c.PID())
	t.Logf("with %d objects: %s", *manyObjects, m)
	if m.peak > memoryLimit {
		t.Errorf("the controller took %d MiB, more than %d", m.peak>>20, memoryLimit>>20)
	}
}

// writeObjects writes ConfigMaps of a namespace into files of a hundred each: plain manifests, as people keep them.
func writeObjects(r *repo, namespace string, n int) {
	for file := range n / 100 {
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: object-%04d\n  namespace: %s\n  labels: {team: platform, app: example}\ndata:\n  config.yaml: |\n    replicas: 3\n    image: registry.example.com/team/app:v1.2.3\n    options: [one, two, three]\n  mode: fast\n", file*100+i, namespace)
		}
		r.write(fmt.Sprintf("config/many/%02d.yaml", file), text.String())
	}
}

// resident is what a process has of the memory, in bytes.
type resident struct {
	// peak is the largest and now the present size, pages of files such as the binary included.
	peak, now int
	// anonymous are the pages of now that are of no file, which the kernel cannot drop.
	anonymous int
}

// String implements fmt.Stringer.
func (r resident) String() string {
	return fmt.Sprintf("%d MiB at the peak, %d MiB now, of which %d MiB are anonymous", r.peak>>20, r.now>>20, r.anonymous>>20)
}

// memory reads what a process has.
func memory(t *testing.T, pid int) (m resident) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		field, rest, _ := strings.Cut(line, ":")
		kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
		switch {
		case err != nil:
		case field == "VmHWM":
			m.peak = kib << 10
		case field == "VmRSS":
			m.now = kib << 10
		case field == "RssAnon":
			m.anonymous = kib << 10
		}
	}
	if m.peak == 0 || m.now == 0 || m.anonymous == 0 {
		t.Fatalf("process %d shows no memory", pid)
	}
	return m
}
