package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Rendered is a checked folder as the child wrote it, which takes a twentieth of the memory.
// The zero value holds nothing.
type Rendered struct{ raw []byte }

// Bytes is how much memory it takes, in bytes.
func (r Rendered) Bytes() int64 { return int64(cap(r.raw)) }

// Decode decodes it anew each time: nobody else has what it returns.
func (r Rendered) Decode() (checked.Folder, error) {
	var found result
	if len(r.raw) > 0 {
		if err := utiljson.Unmarshal(r.raw, &found); err != nil {
			return checked.Folder{}, fmt.Errorf("reading what was rendered: %w", err)
		}
	}
	items := make([]state.Item, len(found.Items))
	for i, f := range found.Items {
		items[i] = state.Item{Key: f.Key, Version: f.Version, Object: f.Object, Origin: f.Origin}
	}
	out := checked.Folder{Set: state.NewSet(items...), Problems: found.Problems, Refused: found.Refused, Notes: found.Notes}
	out.Clusters, out.Unknown = byKey(found.Clusters), byKey(found.Unknown)
	return limited(out), nil
}

// byKey are objects that are refused, by their keys; nil for none.
func byKey(list []refusedObject) map[state.Key][]state.Problem {
	if len(list) == 0 {
		return nil
	}
	out := make(map[state.Key][]state.Problem, len(list))
	for _, of := range list {
		out[of.Key] = of.Problems
	}
	return out
}

// RenderedOf is l as a child would write it.
func RenderedOf(l checked.Folder) (Rendered, error) {
	raw, err := json.Marshal(resultOf(l))
	if err != nil {
		return Rendered{}, fmt.Errorf("writing what was rendered: %w", err)
	}
	return Rendered{raw: raw}, nil
}

// loadRequest is what to load.
type loadRequest struct {
	Folder string `json:"folder"`
	// Links reports whether the tree has symbolic links.
	Links bool `json:"links"`
	// Values are the variables', sealed: the child has no value of a Secret.
	Values []byte `json:"values,omitempty"`
}

// refusedObject is an object that does not fit its schema.
type refusedObject struct {
	Key      state.Key       `json:"key"`
	Problems []state.Problem `json:"problems"`
}

// item is the part of a state.Item that a declaration fills.
type item struct {
	Key     state.Key      `json:"key"`
	Version string         `json:"version"`
	Object  map[string]any `json:"object"`
	Origin  state.Origin   `json:"origin"`
}

func serveLoad(_ context.Context, t *talk) (result, error) {
	raw, err := t.want(frameRequest)
	if err != nil {
		return result{}, err
	}
	var req loadRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		return result{}, fmt.Errorf("reading what to load: %w", err)
	}
	tree := &borrowed{out: t.out, reply: func() ([]byte, error) { return t.want(frameReply) }, known: map[string]known{}}
	var files fs.FS = tree
	if req.Links {
		files = linked{tree}
	}
	var values substitute.Values
	if len(req.Values) > 0 {
		if values, err = substitute.Restore(fluxexpr.Parse, req.Values); err != nil {
			return result{}, err
		}
	}
	found, err := checked.Load(files, req.Folder, values, readStandards)
	if err != nil {
		return result{}, err
	}
	return resultOf(limited(found)), nil
}

func resultOf(l checked.Folder) result {
	out := result{Problems: l.Problems, Refused: l.Refused, Notes: l.Notes}
	for _, i := range l.Set.Items() {
		object, _ := fractional(i.Object).(map[string]any)
		out.Items = append(out.Items, item{Key: i.Key, Version: i.Version, Object: object, Origin: i.Origin})
		if of, refused := l.Clusters[i.Key]; refused {
			out.Clusters = append(out.Clusters, refusedObject{i.Key, of})
		}
		if of, refused := l.Unknown[i.Key]; refused {
			out.Unknown = append(out.Unknown, refusedObject{i.Key, of})
		}
	}
	return out
}

// fractional is a canonical value that is written so that floating numbers without
// a fraction are read as floating again.
func fractional(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = fractional(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = fractional(e)
		}
		return out
	case float64:
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			text := strconv.FormatFloat(v, 'g', -1, 64)
			if !strings.ContainsAny(text, ".e") {
				text += ".0"
			}
			return json.Number(text)
		}
	}
	return v
}

func readStandards() (out checked.Standards, err error) {
	if out.CRDs, err = crds.Known(); err == nil {
		out.Types, err = catalog.Load()
	}
	return out, err
}
