package assets

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// textChange is text that must be there once, and what it becomes.
type textChange struct{ from, to string }

// replace makes the replacements in a file.
func replace(name string, content []byte, replacements []textChange) ([]byte, error) {
	for _, r := range replacements {
		if n := bytes.Count(content, []byte(r.from)); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, and must have it once", name, r.from, n)
		}
		content = bytes.Replace(content, []byte(r.from), []byte(r.to), 1)
	}
	return content, nil
}

// install is config/default with the image of the release, for kubectl apply.
func (c Config) install() (asset, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(c.Root, "config", "default"))
	if err != nil {
		return asset{}, fmt.Errorf("rendering config/default: %w", err)
	}
	content, err := rendered.AsYaml()
	if err != nil {
		return asset{}, fmt.Errorf("rendering config/default: %w", err)
	}
	content, err = replace("config/default", content, []textChange{{"image: poolwright:dev\n", "image: " + c.Repository + ":" + c.Release.Version + "@" + c.ImageDigest + "\n"}})
	if err != nil {
		return asset{}, err
	}
	head := fmt.Sprintf("# Poolwright %s: kubectl apply --server-side -f install.yaml\n# %s/blob/%s/docs/howto/follow-a-repository.md\n", c.Release.Version, homepage, c.Release.Version)
	return asset{name: "install.yaml", content: append([]byte(head), content...)}, nil
}

// chart is a chart's archive, as helm package makes one, with the release's version and image. A chart's
// version has no v.
func (c Config) chart(name string) (asset, error) {
	version := strings.TrimPrefix(c.Release.Version, "v")
	changes := map[string][]textChange{
		"Chart.yaml": {{"\nversion: 0.0.0-dev\n", "\nversion: " + version + "\n"}, {"\nappVersion: dev\n", "\nappVersion: " + c.Release.Version + "\n"}},
	}
	if name == "poolwright" {
		changes["values.yaml"] = []textChange{{"\n  repository: poolwright\n", "\n  repository: " + c.Repository + "\n"}, {"\n  digest: \"\"\n", "\n  digest: " + c.ImageDigest + "\n"}}
		changes["README.md"] = []textChange{{"`\"poolwright\"`", "`\"" + c.Repository + "\"`"}, {"| `image.digest` | `\"\"` |", "| `image.digest` | `\"" + c.ImageDigest + "\"` |"}}
	}
	dir := filepath.Join(c.Root, "config", "chart", name)
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			content, err = replace(path, content, changes[inside])
		}
		delete(changes, inside)
		entries = append(entries, entry{name: name + "/" + filepath.ToSlash(inside), mode: 0o644, content: content})
		return err
	})
	if err == nil && len(changes) > 0 {
		err = fmt.Errorf("%d of its files are missing", len(changes))
	}
	if err != nil {
		return asset{}, fmt.Errorf("packing the chart %s: %w", name, err)
	}
	// Helm finds out what a chart is by its first file.
	slices.SortStableFunc(entries, func(a, b entry) int {
		return strings.Compare(strings.TrimSuffix(a.name, "Chart.yaml"), strings.TrimSuffix(b.name, "Chart.yaml"))
	})
	content, err := archive(entries, c.Release.Created)
	return asset{name: name + "-" + version + ".tgz", content: content}, err
}
