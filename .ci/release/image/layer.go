package image

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/poolwright/poolwright/.ci/release/product"
)

// entry is a file or, with a name that ends with a slash, a folder of a layer.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// filesLayer has the root certificates of Mozilla's programme, the licence and the notice.
func filesLayer(root string, modified time.Time) (v1.Layer, error) {
	entries := []entry{
		{name: "etc/", mode: 0o755}, {name: "etc/ssl/", mode: 0o755}, {name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("reading what goes into the image: %w", err)
		}
		entries = append(entries, entry{name: name, mode: 0o644, content: content})
	}
	return layer(entries, modified)
}

// certificates are those without a constraint: a file of certificates cannot express one, and
// without it they would be trusted for more than they are.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return out.Bytes()
}

// binaryLayer has the controller.
func binaryLayer(b product.Binary, modified time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(b.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the binary for %s: %w", b.Platform, err)
	}
	return layer([]entry{{name: "poolwright", mode: 0o755, content: content}}, modified)
}

// layer is a layer of entries that belong to root.
func layer(entries []entry, modified time.Time) (v1.Layer, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: modified, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	// Its digest, writing it and pushing it read it each: without the cache it is compressed for each of them.
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(product.CompressionLevel), tarball.WithCompressedCaching)
}
