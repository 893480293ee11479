package child

import (
	"io"
	"strings"
)

const (
	// tailBytes is how much is kept of what a child says last.
	tailBytes = 2 << 10
	// causeBytes is the longest line of it that is passed on.
	causeBytes = 300
)

// tail keeps the end of a stream.
type tail struct {
	text []byte
	// over is closed when the stream ended; text may be read then.
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
	return len(p), nil
}

// cause is the line that says why the process ended: the first of a crash, else
// the last.
func (t *tail) cause() string {
	last := ""
	for line := range strings.SplitSeq(string(t.text), "\n") {
		line = strings.TrimSpace(line)
		if len(line) > causeBytes {
			line = strings.ToValidUTF8(line[:causeBytes], "") + "…"
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
		if line != "" {
			last = line
		}
	}
	return last
}
