// Package rendercache keeps what folders of Git trees were rendered to, so that a tree is
// rendered once for all who follow it or propose it.
//
// It refuses to render anything itself: a Renderer does, in a process of its own. Start
// reading at Cache.
package rendercache

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/timeout"
)

const (
	// MaxBytes is how much memory what is cached of all trees takes together, in bytes:
	// those of followed branches, those of pull requests, and why some of them cannot be
	// rendered. Who opens any number of pull requests fills no more.
	MaxBytes = 24 << 20
	// entryBytes is what one that is cached takes beside its text, or more.
	entryBytes = 1 << 10
)

// Renderer renders and checks folders in a process of its own.
type Renderer interface {
	// Render renders and checks the folder at a path of a tree, with the values of variables.
	// Its errors have a class, see [state.Classify]: state.Fix is for the tree's author to
	// mend. The folder is encoded, which takes a fraction of the memory.
	Render(ctx context.Context, tree fs.FS, folder string, values substitute.Values) ([]byte, error)
	// Decode returns the folder that Render of any Renderer has encoded, anew each time: nobody
	// else has what it returns.
	Decode(encoded []byte) (checked.Folder, error)
	// Proposal reports whether its limits are those of what is only proposed.
	Proposal() bool
}

// Cache keeps what was rendered of trees, as they wrote it: those requested last, up to a
// budget in bytes. Equal trees render equally, so that a revision that is followed by
// several Syncs is rendered once, and a plan that is made again because nodes came and
// went renders nothing. It is safe for concurrent use: who requests what is being
// rendered waits for that, and for nothing else.
type Cache struct {
	mu sync.Mutex
	// kept are in the order of their use, the newest last.
	kept []entry
	// pending are the renderings that have not ended.
	pending map[task]*pendingRender
	// budget is for kept, in bytes. Default MaxBytes.
	budget int64
}

type entry struct {
	task
	// encoded is the folder as the renderer encoded it.
	encoded []byte
	// err is why there is no result. The limits of proposals are narrower: what kept one
	// from being rendered does not hold for a followed branch.
	err error
	// files is what the renderer was given, once it was needed.
	files Files
}

// bytes is how much memory it takes.
func (r entry) bytes() int64 {
	total := entryBytes + int64(len(r.tree)+len(r.path)+len(r.values)+cap(r.encoded))
	if r.err != nil {
		total += int64(len(r.err.Error()))
	}
	return total
}

func (r entry) decode(in Renderer) (checked.Folder, error) {
	if r.err != nil {
		return checked.Folder{}, r.err
	}
	var out checked.Folder
	err := apply.Recover(func() (err error) { out, err = in.Decode(r.encoded); return err })
	return out, err
}

// task is a rendering under way. A followed branch does not wait for that of a proposal,
// which may be waiting behind other proposals.
type task struct {
	entryKey
	proposal bool
}

// pendingRender is what those wait for who need the same.
type pendingRender struct {
	done chan struct{}
	entry
}

// entryKey is what a rendering depends on: a folder of a tree, and the digest of the
// variables' values.
type entryKey struct{ tree, path, values string }

// Bytes is how much memory all that is cached takes, in bytes.
func (r *Cache) Bytes() (total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kept {
		total += k.bytes()
	}
	return total
}

// Load renders a folder of a snapshot, or returns it from the cache. Without a TreeID
// nothing is cached. Its errors are the Renderer's.
func (r *Cache) Load(ctx context.Context, in Renderer, at gitsource.Snapshot, path string, values substitute.Values) (checked.Folder, error) {
	key := entryKey{at.TreeID, path, values.Digest()}
	if key.tree == "" {
		encoded, err := in.Render(ctx, at.FS, path, values)
		if err != nil {
			return checked.Folder{}, err
		}
		return in.Decode(encoded)
	}
	for {
		if found, ok := r.find(key); ok && (found.err == nil || found.proposal == in.Proposal()) {
			return found.decode(in)
		}
		doing, mine := r.begin(task{key, in.Proposal()})
		if mine {
			doing.err = apply.Recover(func() (err error) {
				doing.encoded, err = in.Render(ctx, at.FS, path, values)
				return err
			})
			r.end(task{key, in.Proposal()}, doing)
			return doing.decode(in)
		}
		resume := timeout.Pause(ctx) // Whoever renders it is charged.
		select {
		case <-doing.done:
			resume()
		case <-ctx.Done():
			resume()
			return checked.Folder{}, fmt.Errorf("waiting for the folder to be rendered: %w", context.Cause(ctx))
		}
		// What befell only the other caller, such as the end of its context, is
		// nothing to pass on.
		if class, _, _ := state.Classify(doing.err); doing.err == nil || class == state.Stalled {
			return doing.decode(in)
		}
	}
}

// begin joins a rendering under way; mine is true for the caller who has to do it.
func (r *Cache) begin(t task) (doing *pendingRender, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if doing, ok := r.pending[t]; ok {
		return doing, false
	}
	doing = &pendingRender{done: make(chan struct{}), entry: entry{task: t}}
	if r.pending == nil {
		r.pending = map[task]*pendingRender{}
	}
	r.pending[t] = doing
	return doing, true
}

// end caches what lasts of a rendering, and lets those go on who wait for it.
func (r *Cache) end(t task, doing *pendingRender) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, t)
	close(doing.done)
	if class, reason, _ := state.Classify(doing.err); doing.err != nil {
		// How long a rendering takes depends on the machine, too: a followed branch gets
		// another try.
		if class != state.Stalled || reason == "RenderTimeout" && !t.proposal {
			return
		}
	}
	r.keep(doing.entry)
}

// keep adds the newest, and evicts the oldest beyond the budget.
func (r *Cache) keep(newest entry) {
	if newest.err != nil && slices.ContainsFunc(r.kept, func(k entry) bool { return k.entryKey == newest.entryKey && k.err == nil }) {
		return // A proposal's limits are narrower.
	}
	r.kept = slices.DeleteFunc(r.kept, func(k entry) bool { return k.entryKey == newest.entryKey })
	r.kept = append(r.kept, newest)
	left, from := cmp.Or(r.budget, MaxBytes), len(r.kept)
	for from > 0 && r.kept[from-1].bytes() <= left {
		from--
		left -= r.kept[from].bytes()
	}
	r.kept = slices.Delete(r.kept, 0, from)
}

// find makes what it finds the newest.
func (r *Cache) find(key entryKey) (entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.kept, func(k entry) bool { return k.entryKey == key })
	if at < 0 || key.tree == "" {
		return entry{}, false
	}
	found := r.kept[at]
	r.kept = append(slices.Delete(r.kept, at, at+1), found)
	return found, true
}
