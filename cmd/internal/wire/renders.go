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
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/worktime"
)

const (
	// rendersBytes is how much memory what is remembered of all trees takes together, in
	// bytes: those of followed branches, those of pull requests, and why some of them
	// cannot be rendered. Who opens any number of pull requests fills no more.
	rendersBytes = 24 << 20
	// entryBytes is what one that is remembered takes beside its text, or more.
	entryBytes = 1 << 10
)

// renders remembers what children made of trees, as they wrote it: those asked for last,
// up to a budget in bytes. Equal trees render equally, so that a revision that is
// followed by several Syncs is rendered once, and a plan that is made again because nodes
// came and went renders nothing. It is safe for concurrent use: who asks for what is
// being rendered waits for that, and for nothing else.
type renders struct {
	mu sync.Mutex
	// kept are in the order of their use, the newest last.
	kept []rendered
	// pending are the renderings that have not ended.
	pending map[task]*rendering
	// budget is for kept, in bytes. Default rendersBytes.
	budget int64
}

type rendered struct {
	asked folderAt
	out   child.Rendered
	// err is why there is no result. The limits of proposals are narrower: what kept one
	// from being rendered says nothing of a followed branch.
	err      error
	proposal bool
	// folder is what the child was given, once somebody asked.
	folder contents
}

// bytes is how much memory it takes.
func (r rendered) bytes() int64 {
	total := entryBytes + r.out.Bytes() + int64(len(r.asked.tree)+len(r.asked.path)+len(r.asked.values))
	if r.err != nil {
		total += int64(len(r.err.Error()))
	}
	return total
}

func (r rendered) loaded() (checked.Folder, error) {
	if r.err != nil {
		return checked.Folder{}, r.err
	}
	var out checked.Folder
	err := apply.Recover(func() (err error) { out, err = r.out.Loaded(); return err })
	return out, err
}

// task is a rendering under way. A followed branch does not wait for that of a proposal,
// which may be waiting behind other proposals.
type task struct {
	folderAt
	proposal bool
}

// rendering is what those wait for who ask for the same.
type rendering struct {
	done chan struct{}
	rendered
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

// load renders a folder of a snapshot in a child process, or remembers it.
func (r *renders) load(ctx context.Context, in *child.Runner, at gitsource.Snapshot, path string, values substitute.Values) (checked.Folder, error) {
	asked := folderAt{at.TreeID, path, values.Digest()}
	if asked.tree == "" {
		return in.Load(ctx, at.FS, path, values)
	}
	for {
		if found, ok := r.find(asked); ok && (found.err == nil || found.proposal == in.Proposal) {
			return found.loaded()
		}
		doing, mine := r.begin(task{asked, in.Proposal})
		if mine {
			doing.err = apply.Recover(func() (err error) {
				doing.out, err = in.Render(ctx, at.FS, path, values)
				return err
			})
			r.end(task{asked, in.Proposal}, doing)
			return doing.loaded()
		}
		resume := worktime.Wait(ctx) // Whoever renders it is charged.
		select {
		case <-doing.done:
			resume()
		case <-ctx.Done():
			resume()
			return checked.Folder{}, fmt.Errorf("waiting for the folder to be rendered: %w", context.Cause(ctx))
		}
		// What befell only the other who asked, such as the end of its context, is
		// nothing to pass on.
		if class, _, _ := state.Classify(doing.err); doing.err == nil || class == state.Fix {
			return doing.loaded()
		}
	}
}

// begin joins a rendering under way, or is told to do it.
func (r *renders) begin(t task) (doing *rendering, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if doing, ok := r.pending[t]; ok {
		return doing, false
	}
	doing = &rendering{done: make(chan struct{}), rendered: rendered{asked: t.folderAt, proposal: t.proposal}}
	if r.pending == nil {
		r.pending = map[task]*rendering{}
	}
	r.pending[t] = doing
	return doing, true
}

// end remembers what lasts of a rendering, and lets those go on who wait for it.
func (r *renders) end(t task, doing *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, t)
	close(doing.done)
	if class, reason, _ := state.Classify(doing.err); doing.err != nil {
		// How long a rendering takes depends on the machine, too: a followed branch gets
		// another try.
		if class != state.Fix || reason == "RenderTimeout" && !t.proposal {
			return
		}
	}
	r.keep(doing.rendered)
}

// keep adds the newest, and forgets the oldest beyond the budget.
func (r *renders) keep(newest rendered) {
	if newest.err != nil && slices.ContainsFunc(r.kept, func(k rendered) bool { return k.asked == newest.asked && k.err == nil }) {
		return // A proposal's limits are narrower.
	}
	r.kept = slices.DeleteFunc(r.kept, func(k rendered) bool { return k.asked == newest.asked })
	r.kept = append(r.kept, newest)
	left, from := cmp.Or(r.budget, rendersBytes), len(r.kept)
	for from > 0 && r.kept[from-1].bytes() <= left {
		from--
		left -= r.kept[from].bytes()
	}
	r.kept = slices.Delete(r.kept, 0, from)
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
