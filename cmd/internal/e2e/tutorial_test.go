package e2e

import (
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
	shell *shell
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
			u.shell.block(block, exitCode{2})
		case strings.Contains(block, "--dry-run"):
			u.shell.block(block, exitCode{1})
		case strings.HasPrefix(block, "poolwright bootstrap"):
			u.shell.block(block, exitCode{0})
			if readme := newPage(t, "../README.md").take("poolwright bootstrap"); readme != block {
				t.Errorf("README installs by %q, the tutorial by %q", readme, block)
			}
			// The how-to guide has the same commands, which find nothing to change any more.
			u.shell.block(newPage(t, "howto/bootstrap.md").take("poolwright bootstrap"), exitCode{0})
			u.start()
		default:
			u.shell.block(block, exitCode{0})
		}
	}
	if err := u.nodes(0)(); err != nil {
		t.Error(err)
	}
}

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
	return tutorial{laptop: l, shell: newShell(l.fixture, l.repo,
		"poolwright bootstrap clusters/dev", "poolwright bootstrap clusters/dev --yes",
		"--yes --image registry.example.com/poolwright:v1 --secret git --dry-run", "--image registry.example.com/poolwright:v1 --secret git --dry-run",
		"poolwright uninstall", "poolwright uninstall --yes",
	)}
}
