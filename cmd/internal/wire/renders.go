package wire

import (
	"context"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/state"
)

// proposalsKept is how many trees of pull requests are remembered: the base of all of
// them, and the heads that were looked at last.
const proposalsKept = 32

// renders remembers what children made of trees. Equal trees render equally, so that
// a plan that is made again because nodes came and went renders nothing.
type renders struct {
	mu   sync.Mutex
	kept []rendered
}

type rendered struct {
	tree, path string
	loaded     child.Loaded
	err        error
}

// load renders a folder of a snapshot in a child process, or remembers it. What only
// the author can mend is remembered, too.
func (r *renders) load(ctx context.Context, in *child.Runner, at gitsource.Snapshot, path string) (child.Loaded, error) {
	if found, ok := r.find(at.TreeID, path); ok {
		return found.loaded, found.err
	}
	loaded, err := in.Load(ctx, at.FS, path)
	class, _, _ := state.Classify(err)
	if at.TreeID != "" && (err == nil || class == state.Fix) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kept = append(r.kept, rendered{at.TreeID, path, loaded, err})
		r.kept = r.kept[max(0, len(r.kept)-proposalsKept):]
	}
	return loaded, err
}

// find makes what it finds the newest.
func (r *renders) find(tree, path string) (rendered, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.kept, func(k rendered) bool { return k.tree == tree && k.path == path })
	if at < 0 || tree == "" {
		return rendered{}, false
	}
	found := r.kept[at]
	r.kept = append(slices.Delete(r.kept, at, at+1), found)
	return found, true
}
