package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// roleEnv makes this test binary run as a child instead of running tests.
const roleEnv = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "obedient":
		waitFor(syscall.SIGTERM)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		waitFor(syscall.SIGUSR2) // which nobody sends
	case "crash":
		for i := range 50 {
			fmt.Println("line", i)
		}
		os.Exit(3)
	case "family":
		grandchild := exec.Command(os.Args[0])
		grandchild.Env = []string{roleEnv + "=stubborn"}
		if err := grandchild.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("grandchild", grandchild.Process.Pid)
		waitFor(syscall.SIGTERM)
	case "environment":
		fmt.Println(strings.Join(os.Environ(), " "))
		waitFor(syscall.SIGTERM)
	case "parent":
		runParent()
	}
}

func waitFor(s os.Signal) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, s)
	fmt.Println("ready")
	<-got
}

// runParent starts a family and waits to be killed. It is the sandbox that
// crashes.
func runParent() {
	folder := os.Getenv("PROCESS_TEST_FOLDER")
	group, err := process.NewGroup(os.Getenv("PROCESS_TEST_REAPER"), folder)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, role := range []string{"family", "stubborn"} {
		if _, err := group.Start(spec(folder, role)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	waitFor(syscall.SIGUSR2)
}

func spec(folder, role string) process.Spec {
	return process.Spec{
		Name: role, Path: os.Args[0], Env: []string{roleEnv + "=" + role},
		Log: filepath.Join(folder, role+".log"), Grace: 20 * time.Second,
	}
}

func reaper(t *testing.T) string {
	t.Helper()
	builder, err := build.New(".", testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	built, err := builder.Ensure(t.Context(), build.Reaper())
	if err != nil {
		t.Fatal(err)
	}
	return built.Path
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func newGroup(t *testing.T) (*process.Group, string) {
	t.Helper()
	folder, err := os.MkdirTemp(t.TempDir(), "world-")
	if err != nil {
		t.Fatal(err)
	}
	group, err := process.NewGroup(reaper(t), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Stop(context.Background()); err != nil {
			t.Errorf("stopping the group: %v", err)
		}
	})
	return group, folder
}

func start(t *testing.T, group *process.Group, s process.Spec) *process.Process {
	t.Helper()
	p, err := group.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// eventually polls: other processes cannot be waited for by channel.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited 20 s in vain: %s", what)
		case <-tick.C:
		}
	}
}

func logged(p *process.Process, text string) func() bool {
	return func() bool { return strings.Contains(process.Tail(p.Log(), 100), text) }
}

// gone says whether a process ended. A zombie has ended: it waits for init.
func gone(pid int) func() bool {
	return func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	}
}

func grandchildOf(t *testing.T, log string) int {
	t.Helper()
	var pid int
	eventually(t, "the family names its grandchild", func() bool {
		for line := range strings.Lines(process.Tail(log, 100)) {
			if number, found := strings.CutPrefix(strings.TrimSpace(line), "grandchild "); found {
				parsed, err := strconv.Atoi(number)
				pid = parsed
				return err == nil
			}
		}
		return false
	})
	return pid
}

func TestStopEndsChildrenAndRemovesTheFolder(t *testing.T) {
	group, folder := newGroup(t)
	first := start(t, group, spec(folder, "obedient"))
	second := start(t, group, spec(folder, "family"))
	eventually(t, "the first child is up", logged(first, "ready"))
	grandchild := grandchildOf(t, second.Log())
	if err := group.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{first.PID(), second.PID(), grandchild} {
		eventually(t, fmt.Sprintf("process %d is gone", pid), gone(pid))
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder is still there: %v", err)
	}
	if err := group.Err(); err != nil {
		t.Errorf("an orderly stop was reported as a failure: %v", err)
	}
	if _, err := group.Start(spec(t.TempDir(), "obedient")); err == nil {
		t.Error("a stopped group started a child")
	}
}

func TestAChildThatIgnoresTheRequestIsKilled(t *testing.T) {
	group, folder := newGroup(t)
	stubborn := spec(folder, "stubborn")
	stubborn.Grace = time.Millisecond
	p := start(t, group, stubborn)
	eventually(t, "the child is up", logged(p, "ready"))
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !gone(p.PID())() {
		t.Error("the child is alive after Stop")
	}
	patient := start(t, group, spec(folder, "stubborn"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := patient.Stop(ctx); err != nil { // 20 s of grace, cut short
		t.Fatal(err)
	}
	if err := group.Err(); err != nil {
		t.Errorf("a kill that was asked for was reported as a failure: %v", err)
	}
}

func TestAnUnexpectedEndIsReportedWithTheLastLogLines(t *testing.T) {
	group, folder := newGroup(t)
	p := start(t, group, spec(folder, "crash"))
	select {
	case <-group.Failed():
	case <-time.After(time.Minute):
		t.Fatal("the crash was not reported")
	}
	var exit *process.ExitError
	if err := group.Err(); !errors.As(err, &exit) {
		t.Fatalf("got %v, want an ExitError", err)
	}
	if exit.Name != "crash" || exit.State != "exit status 3" {
		t.Errorf("got %q ended with %q", exit.Name, exit.State)
	}
	if !strings.HasSuffix(exit.Tail, "line 49") || strings.Contains(exit.Tail, "line 9\n") {
		t.Errorf("want only the last lines, got %q", exit.Tail)
	}
	<-p.Done()
	if !errors.As(p.Err(), &exit) {
		t.Errorf("the process itself reports %v", p.Err())
	}
}

func TestAChildHasOnlyTheEnvironmentThatItWasGiven(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "real")
	group, folder := newGroup(t)
	p := start(t, group, spec(folder, "environment"))
	eventually(t, "the child is up", logged(p, "ready"))
	if text := process.Tail(p.Log(), 100); strings.Contains(text, "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("our environment leaked: %q", text)
	}
}

func TestAMissingBinaryIsAnErrorThatNamesTheChild(t *testing.T) {
	group, folder := newGroup(t)
	missing := spec(folder, "etcd")
	missing.Path = filepath.Join(folder, "none")
	if _, err := group.Start(missing); err == nil || !strings.Contains(err.Error(), "starting etcd") {
		t.Errorf("got %v", err)
	}
}

func TestKeepLeavesTheFolder(t *testing.T) {
	group, folder := newGroup(t)
	if err := group.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := group.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("the kept folder is gone: %v", err)
	}
}

func TestNothingOutlivesAParentThatIsKilled(t *testing.T) {
	folder, err := os.MkdirTemp(t.TempDir(), "world-")
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = []string{roleEnv + "=parent", "PROCESS_TEST_FOLDER=" + folder, "PROCESS_TEST_REAPER=" + reaper(t)}
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill() }) // also where the test ends early
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the parent said %q, %v", line, err)
	}
	grandchild := grandchildOf(t, filepath.Join(folder, "family.log"))
	if gone(grandchild)() {
		t.Fatal("the grandchild is not running: the test would prove nothing")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed" is the point
	// The grandchild has no parent-death signal: only the reaper ends it.
	eventually(t, "the grandchild is gone", gone(grandchild))
	eventually(t, "the data folder is gone", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestATrialIsItsStartersToEvaluate(t *testing.T) {
	group, folder := newGroup(t)
	crash := spec(folder, "crash")
	crash.Trial = true
	p := start(t, group, crash)
	err := p.Ready(t.Context(), func(context.Context) error { return errors.New("not yet") })
	var exit *process.ExitError
	if !errors.As(err, &exit) || exit.Name != "crash" {
		t.Errorf("waiting for a crashing child gave %v", err)
	}
	if err := group.Err(); err != nil {
		t.Errorf("a trial failed the group: %v", err)
	}
	group.Trust(p) // which has just ended
	select {
	case <-group.Failed():
	default:
		t.Error("a trusted child's end is not the group's failure")
	}
}

func TestReadyGivesUpWithTheLastResponseAndLog(t *testing.T) {
	group, folder := newGroup(t)
	p := start(t, group, spec(folder, "obedient"))
	eventually(t, "the child is up", logged(p, "ready"))
	ctx, cancel := context.WithCancel(t.Context())
	requested := 0
	err := p.Ready(ctx, func(context.Context) error {
		if requested++; requested == 3 {
			cancel()
		}
		return errors.New("etcd is not ready")
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "etcd is not ready") || !strings.HasSuffix(err.Error(), "lines:\nready") {
		t.Errorf("got %v", err)
	}
	if err := p.Ready(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("a ready child: %v", err)
	}
}

func TestPortsAreDrawnAgainWhileOthersTakeThem(t *testing.T) {
	var drawn [][2]int
	var first, second int
	err := process.WithPorts(func() error {
		drawn = append(drawn, [2]int{first, second})
		if len(drawn) < 3 {
			return errors.New("listen tcp 127.0.0.1: bind: address already in use")
		}
		return nil
	}, &first, &second)
	if err != nil || len(drawn) != 3 {
		t.Fatalf("got %d tries, %v", len(drawn), err)
	}
	for _, ports := range drawn {
		if ports[0] == 0 || ports[1] == 0 || ports[0] == ports[1] {
			t.Errorf("drew %v", ports)
		}
	}
	tries := 0
	other := errors.New("no such flag")
	if err := process.WithPorts(func() error { tries++; return other }, &first); !errors.Is(err, other) || tries != 1 {
		t.Errorf("another failure was tried %d times: %v", tries, err)
	}
	tries = 0
	taken := errors.New("address already in use")
	if err := process.WithPorts(func() error { tries++; return taken }, &first); !errors.Is(err, taken) || tries != 5 {
		t.Errorf("a lasting conflict was tried %d times: %v", tries, err)
	}
}

func TestTailReadsTheEndOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := process.Tail(path, 3); got != "" {
		t.Errorf("a missing log ends with %q", got)
	}
	for name, test := range map[string]struct {
		content, want string
	}{
		"an empty log":                {"", ""},
		"fewer lines than requested":  {"a\nb\n", "a\nb"},
		"more lines than requested":   {"a\nb\nc\nd\n", "b\nc\nd"},
		"no newline at the end":       {"a\nb\nc\nd", "b\nc\nd"},
		"a line longer than the read": {strings.Repeat("x", 40<<10), strings.Repeat("x", 16<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := process.Tail(path, 3); got != test.want {
				t.Errorf("got %d bytes %.40q, want %d bytes %.40q", len(got), got, len(test.want), test.want)
			}
		})
	}
}
