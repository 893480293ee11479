package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

const (
	// linesKept is how many lines of a log a failed test shows. What failed is said
	// before them, and must still be observed by who reads only the end of the output.
	linesKept = 12
	// lineBytes is how much of a line is shown, in bytes.
	lineBytes = 240
)

// logTail shows how a controller's log ends, a short line for each message: the
// time, the level if it is no information, who says it about what, and the words.
// What is repeated is shown once.
func logTail(path string) string {
	var got []string
	for line := range strings.Lines(process.Tail(path, 200)) {
		stamp, texts := shorten(strings.TrimSpace(line))
		got = slices.DeleteFunc(got, func(other string) bool { return strings.HasSuffix(other, "  "+texts) })
		got = append(got, strings.TrimSpace(stamp+"  "+texts))
	}
	got = got[max(0, len(got)-linesKept):]
	return "the tail of the controller's log:\n" + strings.Join(got, "\n")
}

// shorten splits a line into its time and what it says.
func shorten(line string) (stamp, texts string) {
	var got struct {
		Level, TS, Msg, Logger, Controller, Name, Error string
	}
	if json.Unmarshal([]byte(line), &got) != nil || got.Msg == "" {
		return "", clip(line) // a panic, or the runtime's own text
	}
	if _, clock, found := strings.Cut(got.TS, "T"); found {
		stamp, _, _ = strings.Cut(clock, ".")
	}
	parts := []string{got.Controller, got.Name, got.Msg}
	if got.Controller == "" {
		parts[0] = got.Logger
	}
	if got.Level != "info" {
		parts = slices.Insert(parts, 0, strings.ToUpper(got.Level))
	}
	texts = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
	if got.Error != "" {
		texts += ": " + got.Error
	}
	return stamp, clip(texts)
}

func clip(text string) string {
	if len(text) <= lineBytes {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:lineBytes], ""), len(text)-lineBytes)
}
