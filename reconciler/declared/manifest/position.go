package manifest

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"
)

var (
	yamlLine   = regexp.MustCompile(`line (\d+)`)
	yamlPrefix = regexp.MustCompile(`^(error converting YAML to JSON: )?(yaml: )?(unmarshal errors:\s*)?(line \d+: )?`)
)

// errorLine finds the line in a message of the YAML library, or 0.
func errorLine(err error) int {
	if err == nil {
		return 0
	}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			return n
		}
	}
	return 0
}

// lineless removes the library's own line, which counts from the document.
func lineless(err error) string {
	return strings.TrimSpace(yamlPrefix.ReplaceAllString(err.Error(), ""))
}

// What the library's parser, as opposed to its scanner, complains of: it counts
// those lines from 0, and the scanner's from 1.
var (
	// inBlock come with the first line of the mapping or list around the
	// problem, which may be far above it.
	inBlock = []string{"did not find expected key", "did not find expected '-' indicator"}
	// ofParser are the others. Those about brackets come with the line of the
	// opening one, which is the one to show.
	ofParser = []string{
		"did not find expected ',' or ']'", "did not find expected ',' or '}'", "did not find expected node content",
		"did not find expected <stream-start>", "did not find expected <document start>", "found undefined tag handle",
		"found duplicate %YAML directive", "found incompatible YAML document", "found duplicate %TAG directive",
	}
)

// tabInText is about a tab below a plain text, whose first line it comes with.
const tabInText = "found a tab character that violates indentation"

// faultLine is the line of the file where a section that did not parse is
// wrong, as well as the library reports it.
func faultLine(s section, err error) int {
	message := lineless(err)
	line := errorLine(err)
	switch {
	case slices.Contains(inBlock, message):
		line = parseWithFormerVersion(s, message, line) + 1
	case line == 0: // it has none to report
	case message == tabInText:
		line = parseWithFormerVersion(s, message, line)
	default:
		// Where a construct starts in the very first line, the library takes
		// that for unknown and names its end. An empty line above avoids it.
		_, lower := parseOne(section{text: append([]byte("\n"), s.text...)})
		same := lower != nil && lineless(lower) == message
		parser := slices.Contains(ofParser, message)
		switch {
		case same && parser:
			line = errorLine(lower)
		case same:
			line = errorLine(lower) - 1
		case parser:
			line++
		}
	}
	// What is missing at the end is missed after the last line.
	last := 1 + bytes.Count(bytes.TrimSpace(s.text), []byte("\n")) + leading(s.text)
	return s.line - 1 + max(1, min(line, last))
}

// parseWithFormerVersion parses with the library's former version, which has the same grammar and names
// the problem itself rather than the start of what it is in.
func parseWithFormerVersion(s section, message string, otherwise int) int {
	if _, err := sigsyaml.YAMLToJSON(s.text); err != nil && lineless(err) == message {
		return errorLine(err)
	}
	return otherwise
}

// leading counts the lines that are empty before the first that is not.
func leading(text []byte) int {
	content := bytes.TrimLeft(text, " \t\r\n")
	return bytes.Count(text[:len(text)-len(content)], []byte("\n"))
}
