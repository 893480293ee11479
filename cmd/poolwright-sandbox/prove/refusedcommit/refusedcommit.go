// Package refusedcommit has commits that the product must not follow, one for each reason to refuse one.
//
// It pushes nothing. Start reading at All.
package refusedcommit

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// Commit is a commit that the product must not follow.
type Commit struct {
	// Reasons are what the Sync may report.
	Reasons []string
	// Unrelated is whether it has a history of its own.
	Unrelated bool
	// Files returns its declarations below the folder, by path, for objects of a namespace.
	Files func(namespace string) map[string]string
}

// CacheLimit is a small budget of the caches in bytes, and beyondLimit the size of a
// file that exceeds it.
const (
	CacheLimit  = 4 << 20
	beyondLimit = 6 << 20
)

// All are such commits of each kind, in the order in which they are made.
func All() []Commit {
	config := func(namespace string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: %s}\ndata: {value: v1}\n", namespace)
	}
	return []Commit{
		{Reasons: []string{"InvalidManifests"}, Files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace), "broken.yaml": "apiVersion: v1\nkind: [\n"}
		}},
		{Reasons: []string{"LimitExceeded"}, Files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace), "kustomization.yaml": copies(24)}
		}},
		{Reasons: []string{"StorageOperationFailed"}, Files: func(namespace string) map[string]string {
			return map[string]string{"configmap-a.yaml": config(namespace), "noise.bin": noise(beyondLimit)}
		}},
		{Reasons: []string{"NotFastForward"}, Unrelated: true, Files: func(namespace string) map[string]string {
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
