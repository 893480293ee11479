package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// shell is a person's in a clone, with the commands that pages have.
type shell struct {
	fixture
	repo *repo
	// text replaces the page's placeholders.
	text *strings.Replacer
	path string
	// variables are further ones of the environment.
	variables []string
}

func newShell(f fixture, r *repo, replacements ...string) *shell {
	f.Helper()
	return &shell{fixture: f, repo: r, text: strings.NewReplacer(replacements...), path: tools(f.T, f.Environment)}
}

// exitCode is what a block ends with.
type exitCode struct{ want int }

// tools is a folder with the commands that pages use.
func tools(t *testing.T, w *sandbox.Environment) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range map[string]string{"poolwright": binary, "kubectl": w.Kubectl} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// block runs the commands of one block in the clone, and returns what they print.
func (u *shell) block(commands string, end exitCode) string {
	u.Helper()
	begin := time.Now()
	cmd := exec.CommandContext(u.Context(), "bash", "-euo", "pipefail", "-c", u.text.Replace(commands))
	cmd.Dir = u.repo.dir
	cmd.Env = append(cmd.Env, "PATH="+u.path+":"+os.Getenv("PATH"), "HOME="+u.Dir, "TOKEN="+u.repo.token,
		"GIT_AUTHOR_NAME=team", "GIT_AUTHOR_EMAIL=team@example.com", "GIT_COMMITTER_NAME=team", "GIT_COMMITTER_EMAIL=team@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=credential.helper", `GIT_CONFIG_VALUE_0=!f() { echo "username=`+u.repo.user+`"; echo "password=$TOKEN"; }; f`)
	for name, value := range u.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, u.variables...)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != end.want {
		u.Fatalf("exit code %d (%v), want %d, of\n%s\n%s", code, err, end.want, commands, out)
	}
	u.Logf("%s: %s\n%s", since(begin), commands, out)
	return string(out)
}

// prints checks what a block printed.
func (u *shell) prints(got string, texts ...string) {
	u.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			u.Errorf("%q is not in:\n%s", text, got)
		}
	}
}

// shellBlocks are the commands of a page, in order.
func shellBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	return codeBlocks(t, page, "sh")
}

// yamlBlock is the only one of a page with a part.
func yamlBlock(t *testing.T, page, part string) string {
	t.Helper()
	var found []string
	for _, block := range codeBlocks(t, page, "yaml") {
		if strings.Contains(block, part) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks of YAML with %q", page, len(found), part)
	}
	return found[0]
}

// codeBlocks are those in a language, in order.
func codeBlocks(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^( *)```"+language+"\n(.*?)^ *```$").FindAllStringSubmatch(string(content), -1) {
		blocks = append(blocks, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:])
	}
	return blocks
}

// page are the blocks that a test runs of a page, as docs/testdata/blocks.txt lists them: the one that begins so. All must have
// been taken in the end.
type page struct {
	t      *testing.T
	name   string
	blocks []string
}

func newPage(t *testing.T, name string) *page {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "testdata", "blocks.txt"))
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	p := &page{t: t, name: name}
	for _, block := range shellBlocks(t, name) {
		if runBy(string(raw), name, block) == test {
			p.blocks = append(p.blocks, block)
		}
	}
	t.Cleanup(func() {
		if len(p.blocks) > 0 && !t.Failed() {
			t.Errorf("of %s were not run: %q", name, p.blocks)
		}
	})
	return p
}

// runBy is the last field of the first row that a block of a page begins as; * is any block.
func runBy(rows, page, block string) string {
	for row := range strings.Lines(rows) {
		fields := strings.Split(strings.TrimSpace(row), " | ")
		if len(fields) == 3 && fields[0] == page && (fields[1] == "*" || strings.HasPrefix(block, fields[1])) {
			return fields[2]
		}
	}
	return ""
}

// take returns the block that begins so.
func (p *page) take(begins string) string {
	p.t.Helper()
	i := slices.IndexFunc(p.blocks, func(block string) bool { return strings.HasPrefix(block, begins) })
	if i < 0 {
		p.t.Fatalf("%s has no block, or none for this test, that begins with %q", p.name, begins)
	}
	block := p.blocks[i]
	p.blocks = slices.Delete(p.blocks, i, i+1)
	return block
}
