package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

const (
	// wordsKept is how many lines of a log a failed test shows. What failed is said
	// before them, and must still be observed by who reads only the end of the output.
	wordsKept = 12
	// wordsLong is how much of a line is shown, in bytes.
	wordsLong = 240
)

// logTail shows how a controller's log ends, a short line for each message: the
// time, the level if it is no information, who says it about what, and the words.
// What is repeated is shown once.
func logTail(path string) string {
	var said []string
	for line := range strings.Lines(process.Tail(path, 200)) {
		stamp, words := shorten(strings.TrimSpace(line))
		said = slices.DeleteFunc(said, func(other string) bool { return strings.HasSuffix(other, "  "+words) })
		said = append(said, strings.TrimSpace(stamp+"  "+words))
	}
	said = said[max(0, len(said)-wordsKept):]
	return "the controller's last words:\n" + strings.Join(said, "\n")
}

// shorten splits a line into its time and what it says.
func shorten(line string) (stamp, words string) {
	var said struct {
		Level, TS, Msg, Logger, Controller, Name, Error string
	}
	if json.Unmarshal([]byte(line), &said) != nil || said.Msg == "" {
		return "", clip(line) // a panic, or the runtime's own words
	}
	if _, clock, found := strings.Cut(said.TS, "T"); found {
		stamp, _, _ = strings.Cut(clock, ".")
	}
	parts := []string{said.Controller, said.Name, said.Msg}
	if said.Controller == "" {
		parts[0] = said.Logger
	}
	if said.Level != "info" {
		parts = slices.Insert(parts, 0, strings.ToUpper(said.Level))
	}
	words = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
	if said.Error != "" {
		words += ": " + said.Error
	}
	return stamp, clip(words)
}

func clip(text string) string {
	if len(text) <= wordsLong {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:wordsLong], ""), len(text)-wordsLong)
}
