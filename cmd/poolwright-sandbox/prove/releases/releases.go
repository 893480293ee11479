// Package releases has what earlier releases of the product leave in a cluster: the definitions of
// our own kinds, a Sync with its status, what that has applied, and the inventory. Today's product
// must go on from there, which the scenarios of upgrades prove.
//
// A release is a folder that "poolwright-sandbox prove freeze" wrote, by running the release. Nobody
// edits it. Start reading at Read.
package releases

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Names are the releases, the newest first. Until there is a version, a release is known by the
// serial of its definitions.
func Names() []string { return []string{"serial-25", "serial-24"} }

// Release is what a release leaves in a cluster, as YAML.
type Release struct {
	// Definitions are the CustomResourceDefinitions of our own kinds.
	Definitions []string
	// Objects are all others, of which the Sync is the first. Each has the UID that later ones may
	// name it by, and the manager that wrote it.
	Objects []string
}

// Model is what the Sync of each release has applied, as a fixture has it.
func Model() map[string]string {
	return map[string]string{
		"ConfigMap/a": "v1", "ConfigMap/b": "v1", "Secret/a": "v1", "ServiceAccount/a": "v1", "NodePool/a": "v1", "NodePool/b": "v1",
	}
}

//go:embed frozen
var frozen embed.FS

const (
	folder    = "frozen"
	separator = "---\n"
)

// files are the files of a release, with what each has.
func (r *Release) files() map[string]*[]string {
	return map[string]*[]string{"definitions.yaml": &r.Definitions, "objects.yaml": &r.Objects}
}

// Read reads the release of that name. An error is a folder that is not as Write leaves it.
func Read(name string) (Release, error) {
	var r Release
	for file, into := range r.files() {
		text, err := frozen.ReadFile(path.Join(folder, name, file))
		if err != nil {
			return Release{}, fmt.Errorf("reading the release %s: %w", name, err)
		}
		*into = strings.Split(string(text), separator)
	}
	return r, nil
}

// Write writes the release into a folder, which it makes.
func (r Release) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing a release: %w", err)
	}
	var errs []error
	for file, texts := range r.files() {
		errs = append(errs, os.WriteFile(filepath.Join(dir, file), []byte(strings.Join(*texts, separator)), 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writing a release: %w", err)
	}
	return nil
}
