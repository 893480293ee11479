package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
)

// loadRequest is what to load.
type loadRequest struct {
	Folder string `json:"folder"`
	// Links reports whether the tree has symbolic links.
	Links bool `json:"links"`
	// Values are the variables', sealed: the child has no value of a Secret.
	Values []byte `json:"values,omitempty"`
	// Builds is how many builds of an earlier revision follow; nil where none are kept.
	Builds *int `json:"builds,omitempty"`
}

func serveLoad(_ context.Context, t *frameExchange) ([]byte, error) {
	raw, err := t.expect(frameRequest)
	if err != nil {
		return nil, err
	}
	var req loadRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		return nil, fmt.Errorf("reading what to load: %w", err)
	}
	builds, err := keptBuilds(t, req.Builds)
	if err != nil {
		return nil, err
	}
	tree := &remoteFS{out: t.out, reply: func() ([]byte, error) { return t.expect(frameReply) }, known: map[string]known{}}
	var files fs.FS = tree
	if req.Links {
		files = linked{tree}
	}
	var values substitute.Values
	if len(req.Values) > 0 {
		if values, err = substitute.Decode(fluxexpr.Parse, req.Values); err != nil {
			return nil, err
		}
	}
	found, err := checked.Load(files, req.Folder, values, builds, standards())
	if err != nil {
		return nil, err
	}
	if err := sendBuilds(t.out, builds); err != nil {
		return nil, err
	}
	return encodeFolder(found)
}

// standards are those that the binary carries.
func standards() checked.Standards {
	return checked.Standards{CRDs: crds.KnownOf, Types: catalog.Load}
}
