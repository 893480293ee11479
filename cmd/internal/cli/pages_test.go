package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	block   = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")
	comment = regexp.MustCompile(` +# .*`)
	typed   = regexp.MustCompile(`^(?:bin/|kubectl )?poolwright `)
	// separators end a command: what follows them is another, or a file.
	separators = regexp.MustCompile(`\s(?:\|\|?|&&?|>|2>)(?:\s.*|$)`)
)

// commandLines are the commands of poolwright in the shell blocks of a page.
func commandLines(page string) (lines []string) {
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
			line = separators.ReplaceAllString(comment.ReplaceAllString(strings.TrimSpace(line), ""), "")
			if typed.MatchString(line) {
				lines = append(lines, typed.ReplaceAllString(line, ""))
			}
		}
	}
	return lines
}

// pages are all Markdown files of the repository.
func pages(t *testing.T) (out []string) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".ci" {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// accepts parses a command line as far as no command is run.
func accepts(line string) error {
	root := newRoot(&connection{}, Streams{})
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(strings.Fields(line))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestEveryCommandInThePagesIsAccepted(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(content)) {
			n++
			if err := accepts(line); err != nil {
				t.Errorf("%s: poolwright %s: %v", page, line, err)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d commands were found", n)
	}
}

func TestACommandThatDoesNotExistIsFoundInAPage(t *testing.T) {
	const page = "```sh\npoolwright plan clusters/dev --ofline || true\npoolwright paln x\npoolwright init\npoolwright lint clusters/dev > findings.txt\n```\n"
	var refused []string
	for _, line := range commandLines(page) {
		if accepts(line) != nil {
			refused = append(refused, line)
		}
	}
	if got := strings.Join(refused, "; "); got != "plan clusters/dev --ofline; paln x; init" {
		t.Errorf("refused are %q", got)
	}
}
