package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runningProgram is a program that runs in a process group of its own.
type runningProgram struct {
	command *exec.Cmd
	log     *log
	ended   chan struct{}
	code    int
}

// start runs a program.
func start(env []string, program string, args ...string) (*runningProgram, error) {
	p := &runningProgram{command: exec.Command(program, args...), log: &log{}, ended: make(chan struct{})}
	p.command.Env = env
	p.command.Stdout, p.command.Stderr = p.log, p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.command.WaitDelay = time.Second
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		defer close(p.ended)
		err := p.command.Wait()
		exit := &exec.ExitError{}
		if errors.As(err, &exit) {
			p.code = exit.ExitCode()
		}
	}()
	return p, nil
}

// stop ends it and what it started.
func (p *runningProgram) stop() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// log collects what a process writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// header is what klog writes before a line: the level, the time, the process and the place.
var header = regexp.MustCompile(`^[IWEF]\d{4} [0-9:.]+ +\d+ [\w.-]+:\d+\] `)

// lines are the log's without times and places, and without the configuration that the plugin prints.
func (l *log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.text.String()) {
		line = strings.TrimRight(line, "\n")
		message := header.ReplaceAllString(line, "")
		if message == line && strings.ContainsAny(line[:min(1, len(line))], " {}") || strings.TrimSpace(message) == "" {
			continue
		}
		out = append(out, message)
	}
	return out
}

// environment is what programs are given of ours: where programs and libraries are.
func (r *Recorder) environment(path string) []string {
	out := append([]string{"PATH=" + path}, r.Environment...)
	if libraries, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		out = append(out, "LD_LIBRARY_PATH="+libraries)
	}
	return out
}
