package child

import (
	"bytes"
	"io"
	"strings"
)

const (
	// tailBytes is how much is kept of what a child writes last.
	tailBytes = 2 << 10
	// causeBytes is how much of a line is passed on.
	causeBytes = 300
)

// tail keeps the end of a stream, and the line in which the Go runtime wrote why it
// gave up: what it writes after that is long.
type tail struct {
	text  []byte
	crash string
	// line is the beginning of the line that is being written.
	line []byte
	// over is closed when the stream ended; the others may be read then.
	over chan struct{}
}

// follow begins to read the stream.
func (t *tail) follow(from io.Reader) {
	t.over = make(chan struct{})
	go func() {
		defer close(t.over)
		_, _ = io.Copy(t, from)
	}()
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-tailBytes):]...)
	if drop := len(t.text) - tailBytes; drop > 0 {
		t.text = append(t.text[:0], t.text[drop:]...)
	}
	for rest := p; t.crash == "" && len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte("\n"))
		t.line = append(t.line, line[:min(len(line), causeBytes-min(causeBytes, len(t.line)))]...)
		if rest = more; whole {
			t.endLine()
		}
	}
	return len(p), nil
}

func (t *tail) endLine() {
	for _, start := range []string{"panic: ", "fatal error: ", "SIG"} {
		if bytes.HasPrefix(t.line, []byte(start)) {
			t.crash = string(t.line)
		}
	}
	t.line = t.line[:0]
}

// outOfMemory reports whether the runtime gave up because it got no more memory.
func (t *tail) outOfMemory() bool {
	message, ok := strings.CutPrefix(t.crash, "fatal error: ")
	return ok && (strings.Contains(message, "out of memory") || strings.Contains(message, "cannot allocate memory"))
}

// faulted reports whether the runtime itself read or wrote where nothing is, which a nil
// pointer of the program does not do: that panics.
func (t *tail) faulted() bool {
	return strings.HasPrefix(t.crash, "SIGSEGV: ") || strings.HasPrefix(t.crash, "SIGBUS: ")
}

// cause is the line with why the process ended: that of a crash, else the last, at most
// so long as a status can show; empty where it wrote nothing.
func (t *tail) cause() string {
	line := t.crash
	if line == "" {
		text := strings.TrimSpace(string(t.text))
		line = strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	}
	if len(line) >= causeBytes {
		line = line[:causeBytes] + "…"
	}
	return strings.ToValidUTF8(line, "")
}
