package operator

import (
	"cmp"
	"path/filepath"

	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// DefaultCacheSizeLimit is what the caches of all repositories may take together, in
// bytes: four fifths of the volume that config/manager/deployment.yaml has for them. The
// rest is for temporary files, and for what file systems and the kubelet count beside.
const DefaultCacheSizeLimit = 1638 << 20

// cloneCaches are the folders of the caches of Git repositories, with their budgets.
type cloneCaches struct {
	dir               string
	all, pullRequests *gogit.Disk
}

// newCaches shares the budget: pull requests, which many may open, get at most half, so
// that followed branches always find the other.
func newCaches(cfg Config) cloneCaches {
	limit := cmp.Or(cfg.CacheSizeLimit, DefaultCacheSizeLimit)
	all := gogit.NewDisk(cfg.CacheDir, limit)
	return cloneCaches{dir: cfg.CacheDir, all: all, pullRequests: all.SubBudget(filepath.Join(cfg.CacheDir, pullRequestCaches), limit/2)}
}

// pullRequestCaches is the folder of the caches for pull requests, among those of the Syncs.
const pullRequestCaches = "pull-requests"

// artifacts is the folder of what was read of sources of Flux, among the caches of the Syncs.
const artifacts = "artifacts"

// sourceDir is the folder of the cache of a Sync's repository.
func (m cloneCaches) sourceDir(sync *v1alpha1.Sync) string {
	return filepath.Join(m.dir, string(sync.UID))
}

// artifactsDir is the folder of what a Sync has read of a source of Flux.
func (m cloneCaches) artifactsDir(sync *v1alpha1.Sync) string {
	return filepath.Join(m.dir, artifacts, string(sync.UID))
}

// pullRequestsDir is the folder for the revisions of its pull requests.
func (m cloneCaches) pullRequestsDir(sync *v1alpha1.Sync) string {
	return filepath.Join(m.dir, pullRequestCaches, string(sync.UID))
}
