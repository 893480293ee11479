package process

import (
	"errors"
	"io"
	"os"
	"strings"
)

const (
	tailLines = 12
	tailBytes = 16 << 10
)

// Tail returns the last n lines of a log file, as far as they fit into 16 KiB;
// it reads no more than that. A file that cannot be read has no last lines.
func Tail(path string, n int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // read only: nothing to lose
	if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return ""
		}
	}
	content, err := io.ReadAll(io.LimitReader(file, tailBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
