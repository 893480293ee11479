package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sandboxBinary is the second binary, built once beside the product, where make
// puts it, too.
var sandboxBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "poolwright-sandbox")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./cmd/poolwright-sandbox")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building poolwright-sandbox: %w\n%s", err, out)
	}
	return path, nil
})

// demoRun is one run of the demo that has ended.
type demoRun struct {
	stdout, stderr string
	exit           int
	began, ended   time.Time
}

// demo runs `poolwright-sandbox demo -o json` in a folder for temporary files of
// its own, and proves that nothing is left of it.
func demo(t *testing.T, args ...string) demoRun {
	t.Helper()
	path, err := sandboxBinary()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, append([]string{"demo", "-o", "json"}, args...)...)
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	// A test that is cut short asks politely, as Ctrl-C does.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	run := demoRun{out.String(), errs.String(), cmd.ProcessState.ExitCode(), begin, time.Now()}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it left %v: %v", left, err)
	}
	if left := processesIn(t, temp); len(left) > 0 {
		t.Errorf("it left the processes %q", left)
	}
	return run
}

// processesIn lists the processes that were started with, or stand in, a folder.
// Where there is no /proc it knows of none.
func processesIn(t *testing.T, folder string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		stands, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
		if bytes.Contains(line, []byte(folder)) || strings.HasPrefix(stands, folder) {
			found = append(found, filepath.Base(filepath.Dir(path))+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// demoEvent is one line of the demo's suite.
type demoEvent struct {
	Event  string          `json:"event"`
	At     time.Time       `json:"at"`
	Object string          `json:"object"`
	Detail json.RawMessage `json:"detail"`
	// Comment is what Poolwright wrote into the pull request.
	Comment string `json:"comment"`
}

func (r demoRun) events(t *testing.T) (all []demoEvent) {
	t.Helper()
	for line := range strings.Lines(r.stdout) {
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		var one demoEvent
		if err := decoder.Decode(&one); err != nil {
			t.Fatalf("the line %q: %v", line, err)
		}
		if one.Event == "" || one.At.IsZero() || one.Object == "" || len(one.Detail) == 0 {
			t.Errorf("the line %q lacks something", line)
		}
		all = append(all, one)
	}
	return all
}

// sums are the numbers of a summary, and the document's figures beside them.
func (e demoEvent) sums(t *testing.T) (sums map[string]float64, document map[string]string) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(e.Detail, &all); err != nil {
		t.Fatal(err)
	}
	sums = map[string]float64{}
	for name, raw := range all {
		into := any(&document)
		number := sums[name]
		if name != "document" {
			into = &number
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s of the summary: %v", name, err)
		}
		if name != "document" {
			sums[name] = number
		}
	}
	return sums, document
}

// documentedEvents are the names in docs/events.md, in their order.
func documentedEvents(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, demo, found := strings.Cut(string(text), "## Events of the demo")
	if !found {
		t.Fatal("docs/events.md has no section on the demo")
	}
	demo, _, _ = strings.Cut(demo, "### Of the other set-ups")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\|").FindAllStringSubmatch(demo, -1) {
		names = append(names, row[1])
	}
	return names
}

// One after the other: each brings an environment of its own.
func TestTheDemo(t *testing.T) {
	t.Parallel()
	t.Run("prints the steps", demoOfAltanova)
	t.Run("prints the steps of the set-up that is named", demoOfAnotherSetup)
	t.Run("reports why it cannot go on", reportsWhyNothingLaunches)
	t.Run("refuses a set-up without steps", refusesOthers)
}

func demoOfAltanova(t *testing.T) {
	run := demo(t, "--deadline=3m")
	if run.exit != 0 {
		t.Fatalf("exit %d\n%s\n%s", run.exit, run.stdout, run.stderr)
	}
	events := run.events(t)
	var names []string
	at := map[string]time.Time{}
	for _, one := range events {
		names = append(names, one.Event)
		at[one.Event] = one.At
	}
	if diff := cmp.Diff(documentedEvents(t), names); diff != "" {
		t.Fatalf("the events are not the documented ones (-documented +got):\n%s", diff)
	}
	for _, pair := range [][2]string{
		{"sandbox.ready", "git.pushed"}, {"git.pushed", "sync.ready"}, {"sync.ready", "pod.pending"}, {"pod.pending", "fleet.requested"},
		{"fleet.requested", "node.registered"}, {"node.registered", "gpu.allocatable"}, {"gpu.allocatable", "node.initialized"},
		{"node.registered", "pod.bound"}, {"pod.bound", "pod.running"}, {"pod.running", "drift.injected"}, {"drift.injected", "drift.corrected"},
		{"drift.corrected", "pullrequest.opened"}, {"pullrequest.opened", "comment.created"}, {"comment.created", "pullrequest.pushed"},
		{"pullrequest.pushed", "comment.edited"}, {"comment.edited", "commit.pushed"}, {"commit.pushed", "commit.applied"},
		{"commit.applied", "comment.concluded"}, {"commit.applied", "pod.deleted"},
		{"pod.deleted", "instance.terminated"}, {"instance.terminated", "nodes.zero"}, {"nodes.zero", "summary"},
	} {
		if at[pair[1]].Before(at[pair[0]]) {
			t.Errorf("%s came %s before %s", pair[1], at[pair[0]].Sub(at[pair[1]]), pair[0])
		}
	}
	for _, one := range events {
		texts := map[string]string{
			"comment.created": "1 node replaced", "comment.edited": "consolidateAfter", "comment.concluded": "No node had to be replaced",
		}[one.Event]
		if texts != "" && !strings.Contains(one.Comment, texts) {
			t.Errorf("%s does not say %q:\n%s", one.Event, texts, one.Comment)
		}
	}
	sums, document := events[len(events)-1].sums(t)
	for name, sum := range sums {
		if (name == "gpuNodes") != (sum == 0) || sum < 0 {
			t.Errorf("%s is %s", name, strconv.FormatFloat(sum, 'f', -1, 64))
		}
	}
	if len(sums) != 10 || len(document) != 6 || sums["pendingToFleetSeconds"] > sums["pendingToRunningSeconds"] || sums["costUSD"] > 1 {
		t.Errorf("the sums are %v", sums)
	}
	t.Logf("the demo took %s: %v", run.ended.Sub(run.began).Round(time.Second), sums)
}

// demoOfAnotherSetup: of the other set-ups this one takes the shortest time.
func demoOfAnotherSetup(t *testing.T) {
	run := demo(t, "--deadline=3m", "--setup=timeslicing")
	if run.exit != 0 {
		t.Fatalf("exit %d\n%s\n%s", run.exit, run.stdout, run.stderr)
	}
	var names []string
	details := map[string]string{}
	events := run.events(t)
	for _, one := range events {
		names = append(names, one.Event)
		details[one.Event] = string(one.Detail)
	}
	want := []string{
		"sandbox.ready", "git.pushed", "sync.ready",
		"pod.pending", "nodeclaim.created", "fleet.requested", "node.registered", "gpu.allocatable", "node.initialized", "pod.bound", "pod.running",
		"gpu.shared", "commit.pushed", "commit.applied", "pod.deleted", "instance.terminated", "nodes.zero", "summary",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatalf("the events are others (-want +got):\n%s", diff)
	}
	for event, texts := range map[string]string{
		"fleet.requested": "g4dn.12xlarge, on-demand", "gpu.allocatable": "nvidia.com/gpu: 40", "gpu.shared": "40 pods", "commit.applied": "10s",
	} {
		if !strings.Contains(details[event], texts) {
			t.Errorf("%s does not say %q: %s", event, texts, details[event])
		}
	}
	sums, document := events[len(events)-1].sums(t)
	if len(sums) != 7 || len(document) != 2 || sums["podsOfNode"] != 40 || sums["gpuNodes"] != 0 || sums["commitSeconds"] <= 0 || sums["costUSD"] <= 0 || sums["costUSD"] > 1 {
		t.Errorf("the sums are %v", sums)
	}
	t.Logf("the demo took %s: %v", run.ended.Sub(run.began).Round(time.Second), sums)
}

func refusesOthers(t *testing.T) {
	for _, c := range []struct {
		args  []string
		texts string
	}{
		{[]string{"--setup=timesharing"}, `there is no set-up "timesharing"; choose one of altanova, timeslicing, piksel, pingvas, baseten`},
		{[]string{"--setup=piksel", "--example=mine"}, "--example mine is a copy of examples/altanova, and --setup piksel names an example: give one of them"},
		{[]string{"--example=mine"}, "the example mine has no folder clusters/dev"},
	} {
		if run := demo(t, c.args...); run.exit != 1 || run.stdout != "" || !strings.Contains(run.stderr, c.texts) {
			t.Errorf("%v: exit %d, %s%s", c.args, run.exit, run.stdout, run.stderr)
		}
	}
}

// reportsWhyNothingLaunches: nothing can be launched from the pool, and the demo must not wait for
// ever.
func reportsWhyNothingLaunches(t *testing.T) {
	example := filepath.Join(t.TempDir(), "example")
	if err := os.CopyFS(example, os.DirFS(filepath.Join("..", "..", "..", "examples", "altanova"))); err != nil {
		t.Fatal(err)
	}
	pools := filepath.Join(example, "base", "nodepools.yaml")
	text, err := os.ReadFile(pools)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "[g4dn.xlarge, g4dn.2xlarge]", "[g99.xlarge]", 1)
	if changed == string(text) {
		t.Fatal("the example has no such pool any more")
	}
	if err := os.WriteFile(pools, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	const deadline = 2 * time.Minute
	run := demo(t, "--deadline="+deadline.String(), "--example="+example)
	if run.exit != 1 {
		t.Errorf("exit %d", run.exit)
	}
	events := run.events(t)
	if len(events) == 0 || events[len(events)-1].Event != "pod.pending" {
		t.Errorf("the story ended with %v", run.stdout)
	}
	for _, texts := range []string{"waiting for nodeclaim.created: it did not happen within " + deadline.String(), "nodepool requirements filtered out all instance types"} {
		if !strings.Contains(run.stderr, texts) {
			t.Errorf("it does not say %q:\n%s", texts, run.stderr)
		}
	}
}
