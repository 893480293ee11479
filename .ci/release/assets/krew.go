package assets

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// plugin is krew's manifest of a plugin of kubectl.
type plugin struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   pluginMetadata `json:"metadata"`
	Spec       pluginSpec     `json:"spec"`
}

type pluginMetadata struct {
	Name string `json:"name"`
}

type pluginSpec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Platforms        []pluginPlatform `json:"platforms"`
}

type pluginPlatform struct {
	Selector pluginSelector `json:"selector"`
	URI      string         `json:"uri"`
	SHA256   string         `json:"sha256"`
	Bin      string         `json:"bin"`
	Files    []pluginFile   `json:"files"`
}

type pluginSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type pluginFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// krew is the manifest by which krew installs kubectl poolwright from the archives.
func (c Config) krew(archives []asset) (asset, error) {
	p := plugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: pluginMetadata{Name: "poolwright"}, Spec: pluginSpec{
		Version: c.Release.Version, Homepage: homepage, ShortDescription: description,
		Description: "Plans, checks and follows the node pools that one Git repository declares for an EKS\ncluster, with Karpenter embedded.\n",
	}}
	for _, b := range c.Binaries {
		name := c.base(b) + ".tar.gz"
		i := slices.IndexFunc(archives, func(f asset) bool { return f.name == name })
		if i < 0 {
			return asset{}, fmt.Errorf("writing krew's manifest: there is no %s", name)
		}
		p.Spec.Platforms = append(p.Spec.Platforms, pluginPlatform{
			Selector: pluginSelector{MatchLabels: map[string]string{"os": b.Platform.OS, "arch": b.Platform.Architecture}},
			URI:      homepage + "/releases/download/" + c.Release.Version + "/" + name,
			SHA256:   archives[i].sha256(), Bin: "poolwright",
			Files: []pluginFile{{From: "poolwright", To: "."}, {From: "LICENSE", To: "."}, {From: "NOTICE", To: "."}},
		})
	}
	content, err := yaml.Marshal(p)
	if err != nil {
		return asset{}, fmt.Errorf("writing krew's manifest: %w", err)
	}
	return asset{name: "krew.yaml", content: content}, nil
}
