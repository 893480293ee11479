package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// KustomizationFile finds the kustomization file of a folder; empty when it has none.
func KustomizationFile(tree *manifest.Tree, folder string) (string, error) {
	found := ""
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(folder, name)
		info, err := tree.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		case !info.Mode().IsRegular():
			continue
		case found != "":
			return "", fmt.Errorf("it holds both %s and %s; keep one", path.Base(found), name)
		}
		found = file
	}
	return found, nil
}
