package buildcache

import (
	"cmp"
	"io/fs"
	"slices"
	"sync"
)

const (
	// MaxBytes is how much memory the builds of all folders take together, in bytes.
	MaxBytes = 24 << 20
	// buildBytes is what a build takes beside its texts, readBytes what a read does, in bytes.
	buildBytes, readBytes = 256, 24
)

// Cache keeps the builds of folders: of each those that its newest revision was made from. Beyond
// its budget the folder that was used least recently loses its builds, all of them. It is safe
// for concurrent use.
type Cache struct {
	mu sync.Mutex
	// folders are in the order of their use, the newest last.
	folders []*keptFolder
	// budget is in bytes. Default MaxBytes.
	budget int64
}

type keptFolder struct {
	key    string
	builds map[string]keptBuild
	bytes  int64
}

// keptBuild is a build, and the digest of what was read for it.
type keptBuild struct {
	Build
	digest string
}

func (p keptBuild) bytes() int64 {
	total := int64(buildBytes + len(p.Name) + len(p.Content) + len(p.digest))
	for _, r := range p.Reads {
		total += readBytes + int64(len(r))
	}
	return total
}

// Folder is the cache for one folder, by a key that no other author's has: nothing that is made
// from the files of one gets into another.
type Folder struct {
	cache *Cache
	key   string
}

// Folder returns the cache for a folder.
func (c *Cache) Folder(key string) *Folder { return &Folder{c, key} }

// Bytes is how much memory all builds take, in bytes.
func (c *Cache) Bytes() (total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.folders {
		total += f.bytes
	}
	return total
}

// Valid are the builds that count for a tree, without their Reads. A nil Folder has none.
func (f *Folder) Valid(tree fs.FS) []Build {
	if f == nil {
		return nil
	}
	var out []Build
	for _, p := range f.cache.builds(f.key) {
		if Digest(tree, p.Reads) == p.digest {
			p.Reads = nil
			out = append(out, p.Build)
		}
	}
	return out
}

// Keep replaces the builds of the folder by those that the given tree was made from: some that
// were kept, and some that were made.
func (f *Folder) Keep(tree fs.FS, used []string, made []Build) {
	if f == nil {
		return
	}
	fresh := &keptFolder{key: f.key, builds: map[string]keptBuild{}}
	add := func(p keptBuild) {
		fresh.builds[p.Name] = p
		fresh.bytes += p.bytes()
	}
	was := f.cache.builds(f.key)
	for _, name := range used {
		if p, ok := was[name]; ok {
			add(p)
		}
	}
	for _, p := range made {
		if _, twice := fresh.builds[p.Name]; !twice {
			add(keptBuild{p, Digest(tree, p.Reads)})
		}
	}
	f.cache.keep(fresh)
}

// builds makes the folder that it finds the newest.
func (c *Cache) builds(key string) map[string]keptBuild {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.folders, func(f *keptFolder) bool { return f.key == key })
	if at < 0 {
		return nil
	}
	found := c.folders[at]
	c.folders = append(slices.Delete(c.folders, at, at+1), found)
	return found.builds
}

// keep adds the newest folder, and evicts the oldest beyond the budget.
func (c *Cache) keep(newest *keptFolder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.folders = slices.DeleteFunc(c.folders, func(f *keptFolder) bool { return f.key == newest.key })
	c.folders = append(c.folders, newest)
	left, from := cmp.Or(c.budget, MaxBytes), len(c.folders)
	for from > 0 && c.folders[from-1].bytes <= left {
		from--
		left -= c.folders[from].bytes
	}
	c.folders = slices.Delete(c.folders, 0, from)
}
