package refusedcommit

import (
	"bytes"
	"compress/zlib"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render"
)

// rendered is what the product finds in a commit: whether it declares objects, has problems, or exceeds a limit.
func rendered(t *testing.T, c Commit) string {
	t.Helper()
	files := fstest.MapFS{}
	for name, content := range c.Files("apps") {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	if files["kustomization.yaml"] == nil {
		var names []string
		for name := range files {
			if strings.HasSuffix(name, ".yaml") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		files["kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [" + strings.Join(names, ", ") + "]\n")}
	}
	objects, problems, err := render.Run(manifest.NewTree(files, manifest.Limits{}), ".")
	switch {
	case err != nil:
		return "limit"
	case len(problems) > 0:
		return "problems"
	case len(objects) == 0:
		return "nothing"
	}
	return "objects"
}

func TestEachCommitIsRefusedForItsOwnReason(t *testing.T) {
	want := map[string]string{"InvalidManifests": "problems", "LimitExceeded": "limit", "StorageOperationFailed": "objects", "NotFastForward": "objects"}
	for _, c := range All() {
		reason := c.Reasons[0]
		t.Run(reason, func(t *testing.T) {
			if want[reason] == "" {
				t.Fatal("the test does not have the reason")
			}
			if got := rendered(t, c); got != want[reason] {
				t.Errorf("it has %s, want %s", got, want[reason])
			}
			if c.Unrelated != (reason == "NotFastForward") {
				t.Errorf("its history is unrelated: %v", c.Unrelated)
			}
			for name, content := range c.Files("apps") {
				if name == "configmap-a.yaml" && !strings.Contains(content, "namespace: apps") {
					t.Errorf("%s is not in the namespace: %s", name, content)
				}
			}
			delete(want, reason)
		})
	}
	if len(want) > 0 {
		t.Errorf("no commit for %v", want)
	}
}

// Git compresses what it stores: a file that is refused for its size must be as large then.
func TestNoCompressionBringsTheLargeFileBelowTheLimit(t *testing.T) {
	for _, c := range All() {
		content, large := c.Files("apps")["noise.bin"]
		if !large {
			continue
		}
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if packed.Len() <= CacheLimit {
			t.Errorf("%d bytes are %d compressed, and the limit is %d", len(content), packed.Len(), CacheLimit)
		}
	}
}
