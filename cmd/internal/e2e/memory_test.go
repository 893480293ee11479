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
	// Files of a hundred objects each: plain manifests, as people keep them.
	for file := range *manyObjects / 100 {
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: object-%04d\n  namespace: %s\n  labels: {team: platform, app: example}\ndata:\n  config.yaml: |\n    replicas: 3\n    image: registry.example.com/team/app:v1.2.3\n    options: [one, two, three]\n  mode: fast\n", file*100+i, s.apps)
		}
		s.repo.write(fmt.Sprintf("config/many/%02d.yaml", file), text.String())
	}
	s.declare("v1", "few")
	s.repo.commit("Declare many objects")
	c := s.start()
	s.follow()
	s.ready()
	s.handled()
	if n := int(s.sync().Status.Objects); n < *manyObjects {
		t.Fatalf("%d objects are managed", n)
	}
	peak, now := memory(t, c.PID())
	t.Logf("with %d objects: %d MiB at the peak, %d MiB now", *manyObjects, peak>>20, now>>20)
	if peak > memoryLimit {
		t.Errorf("the controller took %d MiB, more than %d", peak>>20, memoryLimit>>20)
	}
}

// memory reads a process's largest and present resident size, in bytes.
func memory(t *testing.T, pid int) (peak, now int) {
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
			peak = kib << 10
		case field == "VmRSS":
			now = kib << 10
		}
	}
	if peak == 0 || now == 0 {
		t.Fatalf("process %d shows no memory", pid)
	}
	return peak, now
}
