// Package image makes the container image of several platforms: the product's binary, root certificates,
// the licence and the notice, and nothing else, with an SBOM for each platform. It depends on the
// binaries and the files of the clone only, not on where or when it is made. Start reading at New.
package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/poolwright/poolwright/.ci/release/product"
)

const source = "https://github.com/poolwright/poolwright"

// Index is the image of several platforms, and the artifacts that refer to it.
type Index struct {
	index v1.ImageIndex
	// images and sboms are of the same platforms; an SBOM's subject is the image.
	images, sboms []v1.Image
	platforms     []v1.Platform
}

// New makes the image of binaries, with the files of the clone.
func New(root string, r product.Release, binaries []product.Binary) (Index, error) {
	files, err := filesLayer(root, r.Created)
	if err != nil {
		return Index{}, err
	}
	out := Index{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	for _, b := range binaries {
		image, err := imageOf(b, r, files)
		if err != nil {
			return Index{}, err
		}
		if err := checkSize(image, b.Platform, maxCompressed); err != nil {
			return Index{}, err
		}
		bill, err := sbomOf(b, r, image)
		if err != nil {
			return Index{}, err
		}
		out.index = mutate.AppendManifests(out.index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &b.Platform}})
		out.images, out.sboms, out.platforms = append(out.images, image), append(out.sboms, bill), append(out.platforms, b.Platform)
	}
	return out, nil
}

// imageOf is the image of a platform. What does not change with each commit comes first.
func imageOf(b product.Binary, r product.Release, files v1.Layer) (v1.Image, error) {
	program, err := binaryLayer(b, r.Created)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: files, History: v1.History{Created: v1.Time{Time: r.Created}, Comment: "certificates and licence"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: v1.Time{Time: r.Created}, Comment: "poolwright"}})
	if err != nil {
		return nil, fmt.Errorf("making the image for %s: %w", b.Platform, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("making the image for %s: %w", b.Platform, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.Platform.OS, b.Platform.Architecture, v1.Time{Time: r.Created}
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/poolwright"}, Cmd: []string{"run"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "poolwright",
			"org.opencontainers.image.description": "GitOps for GPU node pools on Amazon EKS, with Karpenter embedded",
			"org.opencontainers.image.source":      source,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.Version,
			"org.opencontainers.image.revision":    r.Revision,
		},
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("making the image for %s: %w", b.Platform, err)
	}
	return image, nil
}

// sbomOf is the SBOM of an image's binary, which refers to the image. Its configuration's type
// is what OCI 1.1 takes for the type of the artifact.
func sbomOf(b product.Binary, r product.Release, image v1.Image) (v1.Image, error) {
	content, err := product.SBOM(b, r)
	if err != nil {
		return nil, err
	}
	out := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), product.SPDXMediaType)
	out, err = mutate.AppendLayers(out, static.NewLayer(content, product.SPDXMediaType))
	if err != nil {
		return nil, fmt.Errorf("making the SBOM for %s: %w", b.Platform, err)
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, fmt.Errorf("making the SBOM for %s: %w", b.Platform, err)
	}
	referring, ok := mutate.Subject(out, *subject).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("making the SBOM for %s: it is no image", b.Platform)
	}
	return referring, nil
}

// Write replaces the folder by an OCI image layout.
func (a Index) Write(dir, version string) error {
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { // other tools read it
		return fmt.Errorf("writing the image: %w", err)
	}
	at, err := layout.Write(fresh, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	if err := at.AppendIndex(a.index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	for _, s := range a.sboms {
		if err := at.AppendImage(s); err != nil {
			return fmt.Errorf("writing the SBOM: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return os.Rename(fresh, dir)
}

// Digest is the image's own, of all platforms.
func (a Index) Digest() (string, error) {
	digest, err := a.index.Digest()
	return digest.String(), err
}

// Print writes the digests and sizes.
func (a Index) Print(out io.Writer, dir string) error {
	digest, err := a.index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s  %s\n", digest, dir)
	for i, image := range a.images {
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		size, err := compressed(image)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s  %s, %.1f MB compressed\n", digest, a.platforms[i], float64(size)/1e6)
	}
	return nil
}

// maxCompressed is how large the image of a platform may be as it is pulled, in bytes.
const maxCompressed = 45_000_000

// checkSize refuses an image that is larger than so many bytes as it is pulled.
func checkSize(image v1.Image, platform v1.Platform, limit int64) error {
	size, err := compressed(image)
	if err != nil {
		return fmt.Errorf("reading the size of the image for %s: %w", platform, err)
	}
	if size > limit {
		return fmt.Errorf("the image for %s has %.1f MB compressed, and %.1f MB is the limit", platform, float64(size)/1e6, float64(limit)/1e6)
	}
	return nil
}

// compressed is the size of an image's layers as they are pulled, in bytes.
func compressed(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, layer := range manifest.Layers {
		total += layer.Size
	}
	return total, nil
}

// Push pushes the image, and then what refers to it. A reference without a tag gets the version.
func (a Index) Push(ctx context.Context, to, version string, credentials authn.Keychain, out io.Writer) error {
	tag, err := name.NewTag(to, name.WithDefaultTag(version))
	if err != nil {
		return fmt.Errorf("-push: %w", err)
	}
	full := tag.Context().String() + ":" + tag.TagStr()
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(credentials)}
	if err := remote.WriteIndex(tag, a.index, options...); err != nil {
		return fmt.Errorf("pushing to %s: %w", full, err)
	}
	for _, s := range a.sboms {
		digest, err := s.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(tag.Digest(digest.String()), s, options...); err != nil {
			return fmt.Errorf("pushing an SBOM to %s: %w", full, err)
		}
	}
	digest, err := a.index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "pushed %s@%s\n", full, digest)
	return nil
}
