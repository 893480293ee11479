package gogit

import (
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/tree"
)

// state is what is known of the newest snapshot.
type state struct {
	record   clonecache.Record
	snapshot gitsource.Snapshot
	objects  *objects.Store
}

// load reads a recorded revision from the cache and checks all of its tree.
func (s *Source) load(rec clonecache.Record) (*state, error) {
	objs := objects.Open(s.cache.Path(rec.Clone))
	commit, root, err := objs.Peel(plumbing.NewHash(rec.Object))
	if err != nil {
		return nil, err
	}
	files, err := tree.NewWalker(objs, s.limits.tree()).Walk(root)
	if err != nil {
		return nil, err
	}
	return &state{
		record:  rec,
		objects: objs,
		snapshot: gitsource.Snapshot{
			FS:       files,
			Revision: s.ref.revisionOf(commit.String()),
			Commit:   commit.String(),
			TreeID:   root.String(),
		},
	}, nil
}

func snapshotOf(files *tree.FS, name string, commit, root plumbing.Hash) gitsource.Snapshot {
	revision := "sha1:" + commit.String()
	if name != "" {
		revision = name + "@" + revision
	}
	return gitsource.Snapshot{FS: files, Revision: revision, Commit: commit.String(), TreeID: root.String()}
}
