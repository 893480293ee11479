package rendercache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// Files is what is known of files without rendering them.
type Files struct {
	// Digest stands for their names and contents.
	Digest string
	// Kustomized is true where a kustomization is among them.
	Kustomized bool
}

// Files is what is known of a folder of a snapshot without rendering it, read when it is needed.
func (r *Cache) Files(ctx context.Context, at gitsource.Snapshot, below string, values substitute.Values) Files {
	key := entryKey{at.TreeID, below, values.Digest()}
	if found, ok := r.find(key); ok && found.files.Digest != "" {
		return found.files
	}
	out := readFiles(ctx, at.FS, below)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range r.kept {
		if k.entryKey == key && ctx.Err() == nil {
			r.kept[i].files = out
		}
	}
	return out
}

// readFiles reads the files of a folder. Of one that is not there, nothing is known;
// what cannot be read is reported by the Renderer.
func readFiles(ctx context.Context, tree fs.FS, at string) Files {
	var out Files
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
			out.Kustomized = true
		}
		return nil
	})
	out.Digest = hex.EncodeToString(sum.Sum(nil))
	return out
}
