package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
)

// tutorial is a person who follows a page of docs/tutorials, block by block.
type tutorial struct {
	*laptop
	// text replaces the page's placeholders.
	text *strings.Replacer
	path string
}

// shellBlocks are the commands of a page, in order.
func shellBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(content), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestTheFirstTutorial(t *testing.T) {
	t.Parallel()
	u := newTutorial(t)
	for _, block := range shellBlocks(t, "tutorials/first-gpu-pool.md") {
		switch {
		case strings.HasPrefix(block, "make image"): // the tests of .ci/release make, push and run it
		case strings.HasPrefix(block, "poolwright uninstall"):
			// The controller is not the Deployment's, so that the command ends before it removes it;
			// TestInstallingAndUninstallingFromALaptop goes to the end.
			u.block(block, exitCode{2})
		case strings.Contains(block, "--dry-run"):
			u.block(block, exitCode{1})
		case strings.HasPrefix(block, "poolwright bootstrap"):
			u.block(block, exitCode{0})
			u.start()
		default:
			u.block(block, exitCode{0})
		}
	}
	if err := u.nodes(0)(); err != nil {
		t.Error(err)
	}
}

// exitCode is what a block ends with.
type exitCode struct{ want int }

// newTutorial starts an EKS cluster with nothing in it, and clones an empty repository.
func newTutorial(t *testing.T) tutorial {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.AWS.Region, config.AWS.Account, config.AWS.Cluster.Name = "eu-west-1", "111122223333", "my-cluster"
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second}
	started := sandboxtest.Start(t, config)
	l := &laptop{engineSuite: engineSuite{newFixture(t, started), &engineFixture{aws: config.AWS}}}
	l.emptyClone()
	return tutorial{laptop: l, path: tools(t, started), text: strings.NewReplacer(
		"poolwright bootstrap clusters/dev", "poolwright bootstrap clusters/dev --yes",
		"--yes --image registry.example.com/poolwright:v1 --secret git --dry-run", "--image registry.example.com/poolwright:v1 --secret git --dry-run",
		"poolwright uninstall", "poolwright uninstall --yes",
	)}
}

// tools is a folder with the commands that the page uses.
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

// block runs the commands of one block in the clone.
func (u tutorial) block(commands string, end exitCode) {
	u.Helper()
	begin := time.Now()
	cmd := exec.CommandContext(u.Context(), "bash", "-euo", "pipefail", "-c", u.text.Replace(commands))
	cmd.Dir = u.repo.dir
	cmd.Env = append(cmd.Env, "PATH="+u.path+":"+os.Getenv("PATH"), "HOME="+u.Dir, "TOKEN="+u.repo.token,
		"GIT_AUTHOR_NAME=team", "GIT_AUTHOR_EMAIL=team@example.com", "GIT_COMMITTER_NAME=team", "GIT_COMMITTER_EMAIL=team@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=credential.helper", `GIT_CONFIG_VALUE_0=!f() { echo "username=`+u.user+`"; echo "password=$TOKEN"; }; f`)
	for name, value := range u.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != end.want {
		u.Fatalf("exit code %d (%v), want %d, of\n%s\n%s", code, err, end.want, commands, out)
	}
	u.Logf("%s: %s\n%s", since(begin), commands, out)
}
