package benchmark

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/worktree"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
)

const (
	// unitSize is how many objects a kustomization has, and fileSize how many a file of it.
	unitSize, fileSize = 200, 20
	// Folder is the folder of the repository that is followed.
	Folder = "config"
	// branch is the branch that is followed.
	branch = "main"
)

// Repository is a team's repository of objects of one namespace, and its working tree.
type Repository struct {
	gitserver.Repository
	// Namespace is where all objects are declared.
	Namespace string
	// Objects is how many there are.
	Objects int
	tree    *worktree.Tree
}

// units are the folders of the kustomizations below Folder.
func (r *Repository) units() []string {
	var all []string
	for at := 0; at < r.Objects; at += unitSize {
		all = append(all, fmt.Sprintf("u%05d", at))
	}
	return all
}

// write makes the files of the working tree.
func (r *Repository) write() error {
	for n, unit := range r.units() {
		first, files := n*unitSize, []string{}
		for at := first; at < min(first+unitSize, r.Objects); at += fileSize {
			name := fmt.Sprintf("f%05d.yaml", at)
			files = append(files, name)
			if err := r.writeFile(filepath.Join(unit, name), r.manifests(at, "v1")); err != nil {
				return err
			}
		}
		if err := r.writeFile(filepath.Join(unit, "kustomization.yaml"), "labels:\n- pairs: {team: infra}\nresources: ["+strings.Join(files, ", ")+"]\n"); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) writeFile(name, content string) error {
	path := filepath.Join(r.tree.Dir, Folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("making the folder of %s: %w", name, err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// Change gives the first ConfigMap another value, and returns the pushed commit.
func (r *Repository) Change(ctx context.Context, value string) (string, error) {
	if err := r.writeFile(filepath.Join(r.units()[0], "f00000.yaml"), r.manifests(0, value)); err != nil {
		return "", err
	}
	return r.push(ctx, "Set "+value)
}

func (r *Repository) push(ctx context.Context, message string) (string, error) {
	id, err := r.tree.Push(ctx, message)
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", r.Name, err)
	}
	return id, nil
}

// manifests are the objects of one file. The first one has the value.
func (r *Repository) manifests(first int, value string) string {
	var text strings.Builder
	for i := first; i < min(first+fileSize, r.Objects); i++ {
		text.WriteString("---\n" + r.manifest(i, value))
		value = "v1"
	}
	return text.String()
}

// manifest is object i.
func (r *Repository) manifest(i int, value string) string {
	meta := fmt.Sprintf("metadata: {name: o%05d, namespace: %s, labels: {app.kubernetes.io/name: o%05d}}\n", i, r.Namespace, i)
	switch i % fileSize {
	case 14, 15:
		return "apiVersion: apps/v1\nkind: Deployment\n" + meta +
			"spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'r/i:1', ports: [{containerPort: 80}]}]}}}\n"
	case 16, 17:
		return "apiVersion: v1\nkind: ServiceAccount\n" + meta
	case 18:
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n" + meta + "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"
	case 19:
		return "apiVersion: benchmark.example.com/v1\nkind: Example\n" + meta + fmt.Sprintf("spec: {number: %d, text: example}\n", i)
	default:
		return "apiVersion: v1\nkind: ConfigMap\n" + meta + fmt.Sprintf("data: {a: \"%d\", b: %s, c: more}\n", i, value)
	}
}
