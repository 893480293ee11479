package wire

import (
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
)

// ownCRDs are the CustomResourceDefinitions of our own kinds, as the binary
// carries them.
func ownCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded CRDs: %w", err)
	}
	out := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, name := range files {
		raw, err := crd.Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the embedded CRD %s: %w", name, err)
		}
		var c apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &c); err != nil {
			return nil, fmt.Errorf("decoding the embedded CRD %s: %w", name, err)
		}
		out = append(out, &c)
	}
	return out, nil
}
