package operator

import (
	"cmp"
	"path/filepath"

	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// DefaultCacheSizeLimit is what the mirrors of all repositories may take together, in
// bytes: four fifths of the volume that config/manager/deployment.yaml has for them. The
// rest is for temporary files, and for what file systems and the kubelet count beside.
const DefaultCacheSizeLimit = 1638 << 20

// mirrors are the folders of the copies of Git repositories, with their budgets.
type mirrors struct {
	dir               string
	all, pullRequests *gogit.Disk
}

// newMirrors shares the budget: pull requests, which many may open, get at most half, so
// that followed branches always find the other.
func newMirrors(cfg Config) mirrors {
	limit := cmp.Or(cfg.CacheSizeLimit, DefaultCacheSizeLimit)
	all := gogit.NewDisk(cfg.CacheDir, limit)
	return mirrors{dir: cfg.CacheDir, all: all, pullRequests: all.SubBudget(filepath.Join(cfg.CacheDir, pullRequestMirrors), limit/2)}
}

// pullRequestMirrors is the folder of the mirrors for pull requests, among those of the Syncs.
const pullRequestMirrors = "pull-requests"

// artifacts is the folder of what was read of sources of Flux, among the mirrors of the Syncs.
const artifacts = "artifacts"

// sourceDir is the folder of a Sync's copy of its repository.
func (m mirrors) sourceDir(sync *v1alpha1.Sync) string { return filepath.Join(m.dir, string(sync.UID)) }

// artifactsDir is the folder of what a Sync has read of a source of Flux.
func (m mirrors) artifactsDir(sync *v1alpha1.Sync) string {
	return filepath.Join(m.dir, artifacts, string(sync.UID))
}

// pullRequestsDir is the folder for the revisions of its pull requests.
func (m mirrors) pullRequestsDir(sync *v1alpha1.Sync) string {
	return filepath.Join(m.dir, pullRequestMirrors, string(sync.UID))
}
