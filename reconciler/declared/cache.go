package declared

import (
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Cache remembers what trees declare, so that a tree that did not change is
// not rendered again. It is safe for concurrent use; one load runs at a time.
type Cache struct {
	size int
	mu   sync.Mutex
	// entries are in the order of their use, the newest last.
	entries []entry
}

type entry struct {
	asked    question
	declared Declared
	err      error
}

// question is what a result depends on.
type question struct {
	tree, folder string
	limits       manifest.Limits
	timeout      time.Duration
	// values is the digest of the variables.
	values string
	draft  bool
}

// NewCache keeps the given number of results; at least one.
func NewCache(size int) *Cache { return &Cache{size: max(size, 1)} }

// Load is Load, unless this folder of the tree with this id (of a
// gitsource.Snapshot) has been loaded before, with the same variables. Errors that
// another try may cure are not remembered, nor is anything of a tree without an id.
func (c *Cache) Load(treeID string, fsys fs.FS, folder string, options Options) (Declared, error) {
	asked := question{treeID, folder, options.Limits, options.Timeout, options.Values.Digest(), options.Draft}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.entries {
		if treeID != "" && e.asked == asked {
			c.entries = append(slices.Delete(c.entries, i, i+1), e)
			return e.declared, e.err
		}
	}
	d, err := Load(fsys, folder, options)
	if treeID == "" || !lasting(err) {
		return d, err
	}
	c.entries = append(c.entries, entry{asked: asked, declared: d, err: err})
	if len(c.entries) > c.size {
		c.entries = slices.Delete(c.entries, 0, 1)
	}
	return d, err
}

func lasting(err error) bool {
	if err == nil {
		return true
	}
	class, reason, _ := state.Classify(err)
	return class == state.Fix && reason != "RenderTimeout"
}
