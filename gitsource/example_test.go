package gitsource_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/poolwright/poolwright/gitsource"
)

// folder is a Source of files in memory.
type folder struct{ files fstest.MapFS }

// Fetch implements gitsource.Source.
func (f folder) Fetch(context.Context) (gitsource.Snapshot, error) {
	if len(f.files) == 0 {
		return gitsource.Snapshot{}, fmt.Errorf("reading the folder: %w", gitsource.ErrEmpty)
	}
	return gitsource.Snapshot{FS: f.files, Revision: "main@sha1:0123456789012345678901234567890123456789"}, nil
}

// A source that is empty is an error with a reason, and never a smaller tree.
func ExampleSource() {
	for _, source := range []gitsource.Source{folder{fstest.MapFS{"pool.yaml": {Data: []byte("kind: NodePool")}}}, folder{}} {
		snapshot, err := source.Fetch(context.Background())
		reason, fix := gitsource.Reason(err)
		fmt.Printf("%.14s %q %v\n", snapshot.Revision, reason, fix)
	}
	// Output:
	// main@sha1:0123 "" false
	//  "RepositoryEmpty" false
}
