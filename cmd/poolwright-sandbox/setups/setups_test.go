package setups

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each set-up is of a folder with manifests below examples, and every example but its tests is a set-up.
func TestASetUpIsAnExample(t *testing.T) {
	root := filepath.Join("..", "..", "..", "examples")
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			entries, err := os.ReadDir(filepath.Join(root, s.Name, s.Path))
			if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".yaml") }) {
				t.Errorf("the folder %s has no manifest: %v", s.Path, err)
			}
			if s.SyncFile != "" {
				if _, err := os.Stat(filepath.Join(root, s.Name, s.SyncFile)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var folders []string
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(root, e.Name(), "README.md")); e.IsDir() && err == nil {
			folders = append(folders, e.Name())
		}
	}
	names := Names()
	slices.Sort(names)
	if d := cmp.Diff(folders, names); d != "" {
		t.Errorf("set-ups (-examples +set-ups):\n%s", d)
	}
}

func TestASetUpIsFoundByItsName(t *testing.T) {
	for _, want := range All() {
		if got, err := Named(want.Name); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s is %+v, %v", want.Name, got, err)
		}
	}
	_, err := Named("altanowa")
	for _, name := range Names() {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

// Before Poolwright came there is nothing that the repository declares or bootstrap makes.
func TestTheSandboxHasTheClusterAndNothingThatIsDeclared(t *testing.T) {
	clusters := map[string]bool{}
	for _, s := range All() {
		config := s.SandboxConfig()
		got := []string{config.AWS.Region, config.AWS.Account, config.AWS.Cluster.Name, config.AWS.Cluster.Version}
		if d := cmp.Diff([]string{s.Region, Account, s.Cluster, s.Version}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, d)
		}
		if !config.AWS.Cluster.OIDC || len(config.AWS.Roles)+len(config.AWS.Queues)+len(config.AWS.Tags) > 0 {
			t.Errorf("%s begins with the roles %v, the queues %v and the tags %v", s.Name, config.AWS.Roles, config.AWS.Queues, config.AWS.Tags)
		}
		if config.AWS.Tags == nil {
			t.Errorf("%s has the tags of a sandbox by default", s.Name)
		}
		if d := cmp.Diff(s.Groups, config.AWS.Cluster.NodeGroups); d != "" {
			t.Errorf("%s: node groups (-want +got):\n%s", s.Name, d)
		}
		if clusters[s.Cluster] {
			t.Errorf("two set-ups have the cluster %s", s.Cluster)
		}
		clusters[s.Cluster] = true
	}
}
