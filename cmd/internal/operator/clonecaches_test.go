package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/gitsource/gogit"
)

// The kubelet evicts a pod whose volume is full, and the engine with it.
func TestTheVolumeHasCapacityForTheCachesAtTheirLimits(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "manager", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(raw, &deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	for _, arg := range pod.Containers[0].Args {
		if strings.HasPrefix(arg, "--cache-size-limit") {
			t.Fatalf("this test reckons with the default, and the Deployment passes %s", arg)
		}
	}
	if volume := pod.Volumes[0].EmptyDir.SizeLimit.Value(); DefaultCacheSizeLimit > volume*4/5 {
		t.Errorf("the caches may take %d MiB, more than four fifths of the volume's %d", DefaultCacheSizeLimit>>20, volume>>20)
	}
	// What the Deployment's comment promises of each half.
	for repositories, tree := range map[int64]int64{1: 256 << 20, 20: 8 << 20} {
		capacity := int64(DefaultCacheSizeLimit / 2)
		if gogit.CacheBytes(tree) > DefaultCacheSizeLimit/32 {
			capacity -= DefaultCacheSizeLimit / 16 // That is kept for small ones.
		}
		if takes := repositories * gogit.CacheBytes(tree); takes > capacity {
			t.Errorf("%d repositories of %d MiB may take %d MiB, and half of the budget is %d", repositories, tree>>20, takes>>20, DefaultCacheSizeLimit/2>>20)
		}
	}
}

func TestPullRequestsGetHalfOfTheDiskAndFollowedBranchesAlwaysTheOther(t *testing.T) {
	dir := t.TempDir()
	m := newCaches(Config{CacheDir: dir, CacheSizeLimit: 1000})
	left := func() [2]int64 { return [2]int64{m.pullRequests.Remaining(), m.all.Remaining()} }
	if got := left(); got != [2]int64{500, 1000} {
		t.Errorf("of 1000 bytes pull requests may take %d, and all %d", got[0], got[1])
	}
	below := filepath.Join(dir, pullRequestCaches, "a")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "pack"), make([]byte, 500), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != [2]int64{0, 500} {
		t.Errorf("once pull requests have their half, they may take %d, and all %d", got[0], got[1])
	}
}
