package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// behaviors are what a child of the tests does instead of a verb, once it is limited
// and has reported that it is ready.
var behaviors = map[string]func(out *writer, in *reader) error{
	"compute without end": func(*writer, *reader) error {
		for n := uint64(0); ; n++ {
			if n == 1<<63 {
				return nil
			}
		}
	},
	"allocate in steps": func(*writer, *reader) error {
		var all [][]byte
		for {
			all = append(all, bytes.Repeat([]byte{1}, 8<<20))
			if len(all) == 1<<20 {
				return nil
			}
		}
	},
	"allocate at once": func(*writer, *reader) error { _, err := fmt.Println(len(make([]byte, 1<<36))); return err },
	"request input without reading the replies": func(out *writer, _ *reader) error {
		for {
			if err := out.send(frameRead, append([]byte{opStat}, bytes.Repeat([]byte("a"), 1<<20)...)); err != nil {
				return err
			}
		}
	},
	"request input without end": func(out *writer, in *reader) error {
		for {
			if err := out.send(frameRead, append([]byte{opStat}, bytes.Repeat([]byte("a"), 1<<20)...)); err != nil {
				return err
			}
			if _, _, err := in.next(); err != nil {
				return err
			}
		}
	},
	"return too much": func(out *writer, _ *reader) error { return out.send(frameResult, make([]byte, 64<<20)) },
	"return many small maps": func(out *writer, _ *reader) error {
		return out.send(frameResult, append(bytes.Repeat([]byte(`{"a":0},`), 10_000), "{}"...))
	},
	"send nothing":        func(*writer, *reader) error { <-time.After(time.Hour); return nil }, // Without a timer, Go may end it as deadlocked.
	"sleep after a frame": func(_ *writer, in *reader) error { _, _, _ = in.next(); <-time.After(time.Hour); return nil },
	"send its process id and sleep": func(out *writer, _ *reader) error {
		if err := out.send(frameRead, []byte(strconv.Itoa(os.Getpid()))); err != nil {
			return err
		}
		<-time.After(time.Hour)
		return nil
	},
	"close its output": func(*writer, *reader) error { _ = os.Stdout.Close(); <-time.After(time.Hour); return nil },
	"close everything": func(*writer, *reader) error {
		_, _ = os.Stdout.Close(), os.Stderr.Close()
		<-time.After(time.Hour)
		return nil
	},
	"send bytes that are no frame":                     func(*writer, *reader) error { _, err := os.Stdout.WriteString("nonsense, and more of it"); return err },
	"return incomplete JSON once it is requested":      respondToRequestWith("[{},[1,"),
	"return JSON that is no list once it is requested": respondToRequestWith(`{"problems":[]}`),
	"return an error that is too large":                func(out *writer, _ *reader) error { return out.send(frameError, make([]byte, 64<<20)) },
	"return an error of many small maps": func(out *writer, _ *reader) error {
		return out.send(frameError, []byte(`{"x":[`+strings.Repeat(`{"a":0},`, 1<<18)+`{}]}`))
	},
	"return an error that is no JSON": func(out *writer, _ *reader) error { return out.send(frameError, []byte(`{"class":`)) },
	"return an error of a long text": func(out *writer, _ *reader) error {
		return out.send(frameError, []byte(`{"class":2,"reason":"X","text":"`+strings.Repeat("x", 1<<20)+`"}`))
	},
	"send a frame of another exchange": func(out *writer, _ *reader) error { return out.send(frameObject, nil) },
	"send the length of a frame that is too long": func(*writer, *reader) error {
		_, err := os.Stdout.Write([]byte{byte(frameResult), 0xff, 0xff, 0xff, 0xff})
		<-time.After(time.Hour)
		return err
	},
	"panic": func(*writer, *reader) error {
		go func() { panic("odd\nfatal error: out of memory \x1b[31m") }()
		<-time.After(time.Hour)
		return nil
	},
	"dereference nil": func(*writer, *reader) error {
		var t *frameExchange
		t.frames = nil
		return nil
	},
	"fail as the runtime does": func(*writer, *reader) error { return fault() },
	"fail as the runtime does with its memory full": func(*writer, *reader) error {
		// Above the peak of this test's own process, with which a child begins: its other tests fill 800 MiB.
		full := make([]byte, 1200<<20)
		for i := 0; i < len(full); i += 4096 {
			full[i] = 1
		}
		defer runtime.KeepAlive(full)
		return fault()
	},
	"write to standard error and fail": func(*writer, *reader) error {
		fmt.Fprint(os.Stderr, strings.Repeat("noise\n", 1<<16))
		return errors.New("nothing works " + strings.Repeat("x", 1000))
	},
	"write to standard error without end": func(*writer, *reader) error {
		for {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise", 1000))
		}
	},
	"kill itself": func(*writer, *reader) error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	"terminate itself": func(*writer, *reader) error {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-time.After(time.Hour)
		return nil
	},
	"list its environment": respondWith(func() string { return strings.Join(os.Environ(), " ") }),
	"open a file":          respondWith(func() string { _, err := os.Open("/proc/self/status"); return fmt.Sprint(err) }),
	"write a file": respondWith(func() string {
		return fmt.Sprint(os.WriteFile("/tmp/poolwright-child", []byte("x"), 0o600))
	}),
	"dial":            respondWith(func() string { _, err := net.Dial("tcp", "127.0.0.1:1"); return fmt.Sprint(err) }),
	"listen":          respondWith(func() string { _, err := net.Listen("tcp", "127.0.0.1:0"); return fmt.Sprint(err) }),
	"send a datagram": respondWith(func() string { _, err := net.Dial("udp", "127.0.0.1:1"); return fmt.Sprint(err) }),
	// Not by exec.Command, which opens a file before it starts a process.
	"start a program": respondWith(func() string {
		_, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		return fmt.Sprint(err)
	}),
	"execute a program":    respondWith(func() string { return fmt.Sprint(syscall.Exec("/bin/true", []string{"true"}, nil)) }),
	"signal its parent":    respondWith(func() string { return fmt.Sprint(syscall.Kill(parentOfChild, 0)) }),
	"signal all processes": respondWith(func() string { return fmt.Sprint(syscall.Kill(-1, 0)) }),
	"raise its limits": respondWith(func() string {
		var out []string
		for _, l := range []int{syscall.RLIMIT_CPU, syscall.RLIMIT_DATA, syscall.RLIMIT_NOFILE, syscall.RLIMIT_FSIZE} {
			var now syscall.Rlimit
			_ = syscall.Getrlimit(l, &now)
			out = append(out, fmt.Sprint(now.Cur, "/", now.Max))
		}
		return strings.Join(out, " ")
	}),
	"return its working directory": respondWith(func() string { return directoryOfChild }),
	"return its priority": respondWith(func() string {
		// The system call answers with 20 less the value.
		n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		return fmt.Sprint(20-n, err)
	}),
	"return whether it leads its process group": respondWith(func() string { return fmt.Sprint(groupOfChild == os.Getpid()) }),
}

// What a child of the tests reads before it is limited, and cannot read later.
var (
	directoryOfChild            string
	parentOfChild, groupOfChild int
)

// respondWith is a behavior that returns a text.
func respondWith(of func() string) func(*writer, *reader) error {
	return func(out *writer, _ *reader) error { return out.send(frameResult, []byte(of())) }
}

// respondToRequestWith is a behavior that returns a text once it has read what it is to do.
func respondToRequestWith(text string) func(*writer, *reader) error {
	return func(out *writer, in *reader) error {
		if _, _, err := in.next(); err != nil {
			return err
		}
		return out.send(frameResult, []byte(text))
	}
}

// runBehavior has a child perform a behavior in place of rendering.
func (r *Runner) runBehavior(ctx context.Context, behavior string) (string, error) {
	raw, err := r.run(ctx, job{verb: behavior, doing: "rendering", exchange: func(in *writer, out *reader) (frame, error) {
		return serveTree(fstest.MapFS{}, in, out, &returnedBuilds{})
	}})
	return string(raw), err
}

// goesOn proves that this process can still do what it is for.
func goesOn(t *testing.T, r *Runner) {
	t.Helper()
	files := fstest.MapFS{"a/a.yaml": &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}}
	got, err := (&Runner{Path: r.Path, Semaphore: r.Semaphore}).Load(t.Context(), files, "a", substitute.Values{})
	if err != nil || got.Set.Len() != 1 {
		t.Errorf("after it: %d objects, %v", got.Set.Len(), err)
	}
}

// fault ends the process as Go's runtime does at a fault of its own.
func fault() error {
	fmt.Fprintln(os.Stderr, "SIGSEGV: segmentation violation")
	os.Exit(2)
	return nil
}

func TestAChildThatMisbehavesIsAnErrorWithARemedy(t *testing.T) {
	const seconds, late = time.Second, 5 * time.Second // A busy machine needs a while to start a child.
	for name, c := range map[string]struct {
		behavior string
		limits   Limits
		class    state.FailureClass
		reason   string
		want     string
	}{
		"it computes without end":                       {"compute without end", Limits{CPU: seconds}, state.Stalled, "LimitExceeded", "rendering took more than 1s of processor time"},
		"it allocates memory in steps":                  {"allocate in steps", Limits{Memory: 512 << 20}, state.Stalled, "LimitExceeded", "rendering took more than 512 MiB of memory"},
		"it allocates memory at once":                   {"allocate at once", Limits{}, state.Stalled, "LimitExceeded", "rendering took more than 640 MiB of memory"},
		"it requests input without reading the replies": {"request input without reading the replies", Limits{Deadline: late}, state.Retry, "Failed", "rendering timed out after 5s, in which it got "},
		"it requests input without end":                 {"request input without end", Limits{}, state.Stalled, "LimitExceeded", "rendering gave more than 16 MiB"},
		"it requests more input than is allowed":        {"request input without end", Limits{Input: 4 << 20}, state.Stalled, "LimitExceeded", "rendering needs more than 4 MiB of input"},
		"its result is too large":                       {"return too much", Limits{}, state.Stalled, "LimitExceeded", "rendering gave more than 16 MiB"},
		"its error is too large":                        {"return an error that is too large", Limits{}, state.Stalled, "LimitExceeded", "rendering gave more than 16 MiB"},
		"its error takes too much once it is decoded":   {"return an error of many small maps", Limits{}, state.Stalled, "LimitExceeded", "rendering gave more than fits into 96 MiB"},
		"its error cannot be decoded":                   {"return an error that is no JSON", Limits{}, state.Retry, "Failed", "rendering: reading the error: unexpected end of JSON input"},
		"the length of its frame exceeds what it sends": {"send the length of a frame that is too long", Limits{}, state.Stalled, "LimitExceeded", "rendering gave more than 16 MiB"},
		"it sends nothing":                              {"send nothing", Limits{Deadline: late}, state.Retry, "Failed", "rendering timed out after 5s, in which it got "},
		"it does not end":                               {"sleep after a frame", Limits{Deadline: late}, state.Retry, "Failed", "rendering timed out after 5s, in which it got "},
		"it uses the processor and does not end":        {"compute without end", Limits{Deadline: late}, state.Stalled, "RenderTimeout", "rendering timed out after 5s"},
		"it closes its output and does not end":         {"close its output", Limits{Deadline: late}, state.Retry, "Failed", "rendering timed out after 5s, in which it got "},
		"it closes all it has and does not end":         {"close everything", Limits{}, state.Retry, "Failed", "rendering ended unexpectedly: signal: killed"},
		"it writes to standard error without end":       {"write to standard error without end", Limits{Deadline: late}, state.Stalled, "RenderTimeout", "rendering timed out after 5s"},
		"it sends what is no frame":                     {"send bytes that are no frame", Limits{}, state.Stalled, "LimitExceeded", "rendering gave more than 16 MiB"},
		"it sends a frame of another exchange":          {"send a frame of another exchange", Limits{}, state.Retry, "Failed", "a frame 'o' came out of turn"},
		"a goroutine of it panics":                      {"panic", Limits{}, state.Stalled, "RenderFailed", `rendering ended unexpectedly: "panic: odd"`},
		"it dereferences nil":                           {"dereference nil", Limits{}, state.Stalled, "RenderFailed", "invalid memory address or nil pointer dereference"},
		"its runtime fails":                             {"fail as the runtime does", Limits{}, state.Stalled, "RenderFailed", `rendering ended unexpectedly: "SIGSEGV: segmentation violation"`},
		"its runtime fails with its memory full":        {"fail as the runtime does with its memory full", Limits{Memory: 2 << 30}, state.Stalled, "LimitExceeded", "rendering took more than 2048 MiB of memory"},
		"it writes much to standard error and fails":    {"write to standard error and fail", Limits{}, state.Stalled, "RenderFailed", `rendering ended unexpectedly: "Error: nothing works xxx`},
		"it is killed":                                  {"kill itself", Limits{}, state.Retry, "Failed", "rendering ended unexpectedly: signal: killed"},
		"it is terminated":                              {"terminate itself", Limits{}, state.Retry, "Failed", "rendering ended unexpectedly: signal: terminated"},
		"it has no such command":                        {"frobnicate", Limits{}, state.Retry, "Failed", `starting a child: "Error: a child has no command \"frobnicate\", only forecast and load`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Runner{Limits: c.limits, Semaphore: NewSemaphore()}
			begin := time.Now()
			got, err := r.runBehavior(t.Context(), c.behavior)
			if err == nil {
				t.Fatalf("answered %q", got)
			}
			class, reason, _ := state.Classify(err)
			if c.reason == "RenderTimeout" && reason == "Failed" {
				c.class, c.reason = state.Retry, reason // The machine was busy: see the test below.
			}
			if class != c.class || reason != c.reason || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %s: %v\nwant %s %s: %s", class, reason, err, c.class, c.reason, c.want)
			}
			if len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the message is long or odd: %q", err)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("took %s", took)
			}
			goesOn(t, r)
		})
	}
}

func TestWhatIsNoListIsAnErrorBeforeItIsCached(t *testing.T) {
	for _, behavior := range []string{"return incomplete JSON once it is requested", "return JSON that is no list once it is requested"} {
		encoded, err := (&Runner{Args: []string{"misbehave", behavior}}).Render(t.Context(), fstest.MapFS{}, ".", substitute.Values{})
		if class, _, _ := state.Classify(err); err == nil || class != state.Retry || encoded != nil {
			t.Errorf("%s: %q, %v", behavior, encoded, err)
		}
	}
}

func TestAnErrorOfAChildHasAClassAndABoundedText(t *testing.T) {
	_, err := (&Runner{}).runBehavior(t.Context(), "return an error of a long text")
	if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "X" || len(err.Error()) > maxFailureBytes {
		t.Errorf("%s %s with %d bytes", class, reason, len(fmt.Sprint(err)))
	}
}

func TestALateChildIsToBlameOnlyIfItGotTheProcessor(t *testing.T) {
	limits := Limits{Deadline: 90 * time.Second}
	for name, c := range map[string]struct {
		ready  bool
		used   time.Duration
		cause  error
		class  state.FailureClass
		reason string
	}{
		"it worked for a third of the time": {true, 30 * time.Second, errLate, state.Stalled, "RenderTimeout"},
		"it worked for less":                {true, 30*time.Second - 1, errLate, state.Retry, "Failed"},
		"it was never ready":                {false, 60 * time.Second, errLate, state.Retry, "Failed"},
		"the caller waits no longer":        {true, 60 * time.Second, context.Canceled, state.Retry, "Failed"},
	} {
		if class, reason, _ := state.Classify(limits.late("rendering", c.ready, c.used, c.cause)); class != c.class || reason != c.reason {
			t.Errorf("%s: %s %s, want %s %s", name, class, reason, c.class, c.reason)
		}
	}
}

func TestAChildHasNothingAndCanOpenNothing(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	opened, err := os.Open("load_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	many := syscall.EMFILE.Error()
	behaviors := map[string]string{}
	if runtime.GOOS == "linux" { // No system calls are filtered elsewhere.
		many = syscall.EPERM.Error()
		for _, behavior := range []string{"start a program", "execute a program", "signal its parent", "signal all processes"} {
			behaviors[behavior] = syscall.EPERM.Error()
		}
	}
	maps.Copy(behaviors, map[string]string{
		"list its environment":         "",
		"open a file":                  many,
		"write a file":                 many,
		"dial":                         many,
		"listen":                       many,
		"send a datagram":              many,
		"raise its limits":             "60/60 671088640/671088640 0/0 0/0",
		"return its working directory": "/",
		"return its priority":          "10 <nil>",
		"return whether it leads its process group": "true",
	})
	for behavior, want := range behaviors {
		t.Run(behavior, func(t *testing.T) {
			r := &Runner{}
			got, err := r.runBehavior(t.Context(), behavior)
			if err != nil || !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "hunter2") {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestACancelledCallEndsItsChild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	why := errors.New("no leader any more")
	stopping, stop := context.WithCancelCause(ctx)
	defer cancel()
	requested := make(chan struct{})
	r := &Runner{}
	done := make(chan error, 1)
	go func() {
		_, err := r.run(stopping, job{verb: "sleep after a frame", doing: "rendering", exchange: func(_ *writer, out *reader) (frame, error) {
			close(requested)
			_, _, err := out.next()
			return frame{}, err
		}})
		done <- err
	}()
	<-requested
	stop(why)
	err := <-done
	if class, _, _ := state.Classify(err); !errors.Is(err, why) || class != state.Retry {
		t.Errorf("got %v", err)
	}
	goesOn(t, r)
}

func TestAThirdChildWaitsAndItsContextCounts(t *testing.T) {
	r := &Runner{Semaphore: NewSemaphore()}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error)
	for range atOnce {
		go func() {
			_, err := r.run(ctx, job{verb: "sleep after a frame", doing: "rendering", exchange: func(_ *writer, out *reader) (frame, error) {
				ready <- struct{}{}
				_, _, err := out.next()
				return frame{}, err
			}})
			done <- err
		}()
	}
	for range atOnce {
		<-ready
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := r.runBehavior(short, "return its working directory")
	if class, _, _ := state.Classify(err); !errors.Is(err, context.DeadlineExceeded) || class != state.Retry || !strings.Contains(err.Error(), "waiting for other children") {
		t.Errorf("got %v", err)
	}
	go func() { _, err := r.runBehavior(t.Context(), "return its working directory"); done <- err }()
	cancel()
	failed := 0
	for range atOnce + 1 {
		if err := <-done; err != nil {
			failed++
		}
	}
	if failed != atOnce {
		t.Errorf("%d calls failed", failed)
	}
}

func TestAChildEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can have a child killed with its parent; elsewhere it learns by the end of its input")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self, "parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var id int
	_, err = fmt.Fscan(out, &id)
	if err != nil || !lives(id) {
		t.Fatalf("the child %d: %v", id, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.After(30 * time.Second); lives(id); {
		select {
		case <-deadline:
			t.Fatal("the child outlives its parent")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lives reports whether a process runs, and is no zombie.
func lives(id int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

func TestAProgramThatIsNotThereIsForAnotherTry(t *testing.T) {
	for name, r := range map[string]*Runner{
		"no file":             {Path: "/nowhere/at/all"},
		"a program that ends": {Path: "/bin/true"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Load(t.Context(), fstest.MapFS{}, ".", substitute.Values{})
			if class, _, _ := state.Classify(err); class != state.Retry || !strings.HasPrefix(err.Error(), "starting a child: ") {
				t.Errorf("%s: %v", class, err)
			}
		})
	}
}

// broken is a source that fails in the middle.
type broken struct{ fstest.MapFS }

func (b broken) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, ".yaml") {
		return nil, &fs.PathError{Op: "read", Path: name, Err: io.ErrUnexpectedEOF}
	}
	return b.MapFS.ReadFile(name)
}

func TestASourceThatFailsIsNoRemovedFile(t *testing.T) {
	files := broken{fstest.MapFS{"a.yaml": &fstest.MapFile{Data: []byte("a: b\n")}}}
	_, want := load(files, ".", substitute.Values{})
	_, got := (&Runner{}).Load(t.Context(), files, ".", substitute.Values{})
	if class, _, _ := state.Classify(got); class != state.Retry || fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("got %v, want %v", got, want)
	}
}
