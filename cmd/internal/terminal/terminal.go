// Package terminal breaks text at the width of a terminal.
//
// It refuses to change what a program reads: without a terminal nothing is broken. Start reading at Width.
package terminal

import (
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// HelpWidth is the number of columns of help where no terminal has fewer.
const HelpWidth = 100

// Width is the number of columns of a terminal, and 0 for what is none.
func Width(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// HelpWidthOf is the number of columns of help for a reader.
func HelpWidthOf(out io.Writer) int {
	if width := Width(out); width > 0 && width < HelpWidth {
		return width
	}
	return HelpWidth
}

// Wrap writes a line that is broken at spaces so that none is longer than width, where that is
// not 0. What follows the first line is indented. What has no space stays whole: it may be copied.
func Wrap(out *strings.Builder, line, indent string, width int) {
	column := 0
	for i, text := range strings.Split(line, " ") {
		length := columns(text)
		switch {
		case i == 0:
			out.WriteString(text)
			column = length
		case width > 0 && text != "" && column > len(indent) && column+1+length > width:
			out.WriteString("\n" + indent + text)
			column = len(indent) + length
		default:
			out.WriteString(" " + text)
			column += 1 + length
		}
	}
	out.WriteString("\n")
}

// colour is a sequence by which a terminal changes colours.
var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// columns is how many columns a text takes.
func columns(text string) int { return utf8.RuneCountInString(colour.ReplaceAllString(text, "")) }

// WrapLines breaks each line of a text that is longer than width, where that is not 0. What follows is indented by
// two columns more than the line. Each line ends then, the last one too.
func WrapLines(text string, width int) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		Wrap(&out, line, indent+"  ", width)
	}
	return out.String()
}

// Reflow joins the lines of each paragraph and breaks them anew at width. Lines that are indented, such as those
// of a list, are paragraphs of their own.
func Reflow(text string, width int) string {
	var out, paragraph strings.Builder
	end := func() {
		if paragraph.Len() > 0 {
			Wrap(&out, paragraph.String(), "", width)
			paragraph.Reset()
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			end()
			out.WriteByte('\n')
		case strings.HasPrefix(line, " "):
			end()
			hanging := strings.Repeat(" ", hang(line))
			Wrap(&out, line, hanging, width)
		case paragraph.Len() > 0:
			paragraph.WriteString(" " + line)
		default:
			paragraph.WriteString(line)
		}
	}
	end()
	return strings.TrimRight(out.String(), "\n")
}

// hang is the column at which the text of an indented line begins: behind two spaces or more where it has two
// columns, as "  name   what it is".
func hang(line string) int {
	bare := strings.TrimLeft(line, " ")
	indent := len(line) - len(bare)
	if gap := strings.Index(bare, "  "); gap > 0 {
		rest := strings.TrimLeft(bare[gap:], " ")
		return indent + len(bare) - len(rest)
	}
	return indent
}
