package stage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/worktree"
)

// RefusedCommit is a commit that the product must not follow.
type RefusedCommit struct {
	// reasons are what the Sync may report.
	reasons []string
	// unrelated is whether it has a history of its own.
	unrelated bool
	// files are its declarations below the folder, by path, for objects of a namespace.
	files func(namespace string) map[string]string
}

// cacheLimit is a small budget of the mirrors in bytes, and beyondLimit the size of a
// file that exceeds it.
const (
	cacheLimit  = 4 << 20
	beyondLimit = 6 << 20
)

// LimitCache gives the mirrors of processes that start from now on a small budget in bytes.
func (s *Stage) LimitCache() {
	s.config.Arguments = append(slices.Clip(s.config.Arguments), fmt.Sprintf("--cache-size-limit=%d", cacheLimit))
}

// RefusedCommits are such commits of each kind, in the order in which they are made.
func RefusedCommits() []RefusedCommit {
	config := func(namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s}\ndata: {value: v1}\n", namespace)
	}
	return []RefusedCommit{
		{reasons: []string{"InvalidManifests"}, files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace), "broken.yaml": "apiVersion: v1\nkind: [\n"}
		}},
		{reasons: []string{"LimitExceeded"}, files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace), "kustomization.yaml": copies(24)}
		}},
		{reasons: []string{"StorageOperationFailed"}, files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace), "noise.bin": noise(beyondLimit)}
		}},
		{reasons: []string{"NotFastForward"}, unrelated: true, files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace)}
		}},
	}
}

// copies is a kustomization with a patch that doubles an object's data so many times.
func copies(times int) string {
	var b strings.Builder
	b.WriteString("resources: [configmap-a.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n")
	for i := range times {
		fmt.Fprintf(&b, "    - {op: copy, from: /data, path: /data/x%d}\n", i)
	}
	return b.String()
}

// noise is text that no compression makes smaller by much.
func noise(size int) string {
	out := make([]byte, size)
	_, _ = rand.Read(out) // never fails
	return string(out)
}

// CommitRefused pushes a commit that must not be followed, and returns once the Sync reports
// that it is not.
func (s *Stage) CommitRefused(ctx context.Context, c RefusedCommit) error {
	tree := s.tree
	if c.unrelated {
		var err error
		tree, err = worktree.New(filepath.Join(s.dir, "unrelated"), s.tree.URL, s.tree.User, s.tree.Token)
		if err != nil {
			return err
		}
	}
	path := filepath.Join(tree.Dir, folder)
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)); err != nil {
		return err
	}
	files := c.files(s.Apps)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(path, name), []byte(files[name]), 0o600); err != nil {
			return err
		}
	}
	if _, err := tree.Push(ctx, "Declare what is refused"); err != nil {
		return err
	}
	if err := s.Request(ctx); err != nil {
		return err
	}
	return s.eventually(ctx, "the commit is not refused", func() error {
		sync, err := s.readSync(ctx)
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(sync.Status.Conditions, "Ready")
		if condition == nil || condition.Status != metav1.ConditionFalse || !slices.Contains(c.reasons, condition.Reason) {
			return fmt.Errorf("Ready is %v, not False for %s", condition, strings.Join(c.reasons, " or "))
		}
		return nil
	})
}
