package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
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
	asked  folderAt
	loaded child.Loaded
	err    error
	// folder is what the child was given, once somebody asked.
	folder contents
}

// folderAt is what a rendering depends on: a folder of a tree, and the digest of the
// variables' values.
type folderAt struct{ tree, path, values string }

// contents is what is known of files without rendering them.
type contents struct {
	// files stands for their names and contents.
	files string
	// kustomized is true where a kustomization is among them.
	kustomized bool
}

// load renders a folder of a snapshot in a child process, or remembers it. What only
// the author can mend is remembered, too.
func (r *renders) load(ctx context.Context, in *child.Runner, at gitsource.Snapshot, path string, values substitute.Values) (child.Loaded, error) {
	asked := folderAt{at.TreeID, path, values.Digest()}
	if found, ok := r.find(asked); ok {
		return found.loaded, found.err
	}
	loaded, err := in.Load(ctx, at.FS, path, values)
	class, _, _ := state.Classify(err)
	if at.TreeID != "" && (err == nil || class == state.Fix) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.kept = append(r.kept, rendered{asked: asked, loaded: loaded, err: err})
		r.kept = r.kept[max(0, len(r.kept)-proposalsKept):]
	}
	return loaded, err
}

// folder is what a folder of a snapshot holds, looked into when somebody asks.
func (r *renders) folder(ctx context.Context, at gitsource.Snapshot, below string, values substitute.Values) contents {
	asked := folderAt{at.TreeID, below, values.Digest()}
	if found, ok := r.find(asked); ok && found.folder.files != "" {
		return found.folder
	}
	out := lookInto(ctx, at.FS, below)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range r.kept {
		if k.asked == asked && ctx.Err() == nil {
			r.kept[i].folder = out
		}
	}
	return out
}

// lookInto reads the files of a folder. Of one that is not there, nothing is known;
// what cannot be read is told by who renders it.
func lookInto(ctx context.Context, tree fs.FS, at string) contents {
	var out contents
	if tree == nil {
		return out
	}
	sum := sha256.New()
	root := cmp.Or(strings.Trim(path.Clean("/"+at), "/"), ".")
	_ = fs.WalkDir(tree, root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return cmp.Or(err, ctx.Err())
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil // A broken link is as good as its name.
		}
		_, _ = fmt.Fprintf(sum, "%q %x\n", name, sha256.Sum256(content))
		switch e.Name() {
		case "kustomization.yaml", "kustomization.yml", "Kustomization":
			out.kustomized = true
		}
		return nil
	})
	out.files = hex.EncodeToString(sum.Sum(nil))
	return out
}

// find makes what it finds the newest.
func (r *renders) find(asked folderAt) (rendered, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.kept, func(k rendered) bool { return k.asked == asked })
	if at < 0 || asked.tree == "" {
		return rendered{}, false
	}
	found := r.kept[at]
	r.kept = append(slices.Delete(r.kept, at, at+1), found)
	return found, true
}
