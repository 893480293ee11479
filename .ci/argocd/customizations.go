package argocd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Customizations are the keys of config/argocd/argocd-cm.yaml and of components beside it, with their values.
type Customizations map[string]string

// Load reads the customizations below root, the root of the repository, and then those of components, folders of config/argocd,
// which replace the value of a key.
func Load(root string, components ...string) (Customizations, error) {
	out := Customizations{}
	for _, folder := range append([]string{""}, components...) {
		path := filepath.Join(root, "config", "argocd", folder, "argocd-cm.yaml")
		var object struct{ Data Customizations }
		if err := read(path, &object); err != nil {
			return nil, err
		}
		maps.Copy(out, object.Data)
	}
	return out, nil
}

// Health is the script for the health of a kind.
func (c Customizations) Health(kind string) string {
	return c["resource.customizations.health.poolwright.dev_"+kind]
}

// Actions are those of a kind, in the form of Argo CD's argocd-cm.
type Actions struct {
	// Discovery returns which actions an object has.
	Discovery   string `json:"discovery.lua"`
	Definitions []struct {
		Name   string `json:"name"`
		Action string `json:"action.lua"`
	} `json:"definitions"`
}

// Actions reads those of Sync.
func (c Customizations) Actions() (Actions, error) {
	const key = "resource.customizations.actions.poolwright.dev_Sync"
	var out Actions
	if err := yaml.UnmarshalStrict([]byte(c[key]), &out); err != nil {
		return Actions{}, fmt.Errorf("reading %s: %w", key, err)
	}
	return out, nil
}

// Script is that of an action; empty where there is no such action.
func (a Actions) Script(name string) string {
	for _, one := range a.Definitions {
		if one.Name == name {
			return one.Action
		}
	}
	return ""
}

// Case is an object with a status that the controller wrote, and what happened before.
type Case struct {
	Name   string         `json:"name"`
	Object map[string]any `json:"object"`
}

// Cases reads those of a file of testdata, which the tests of the controller write.
func Cases(file string) ([]Case, error) {
	var out []Case
	return out, read(filepath.Join("testdata", file), &out)
}

func read(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
