package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/aws"
)

// Loaded is what a folder declares, and all that is wrong with it.
type Loaded struct {
	// Set holds the objects that have no problem of their form; see
	// declared.Declared.
	Set state.Set
	// Problems are the mistakes of its author that show without a cluster, in the
	// order of file and line.
	Problems []state.Problem
	// Notes are advice about GPUs: each begins with "Warning: ".
	Notes []plan.Note
}

// loadRequest is what to load.
type loadRequest struct {
	Folder string `json:"folder"`
	// Links says whether the tree knows symbolic links.
	Links bool `json:"links"`
}

// item is the part of a state.Item that a declaration fills.
type item struct {
	Key     state.Key      `json:"key"`
	Version string         `json:"version"`
	Object  map[string]any `json:"object"`
	Origin  state.Origin   `json:"origin"`
}

func serveLoad(_ context.Context, t *talk) (result, error) {
	raw, err := t.want(markRequest)
	if err != nil {
		return result{}, err
	}
	var req loadRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		return result{}, fmt.Errorf("reading what to load: %w", err)
	}
	tree := &borrowed{out: t.out, reply: func() ([]byte, error) { return t.want(markReply) }, files: map[string][]byte{}}
	var files fs.FS = tree
	if req.Links {
		files = linked{tree}
	}
	found, err := load(files, req.Folder)
	if err != nil {
		return result{}, err
	}
	out := result{Problems: found.Problems, Notes: found.Notes}
	for _, i := range found.Set.Items() {
		object, _ := fractional(i.Object).(map[string]any)
		out.Items = append(out.Items, item{Key: i.Key, Version: i.Version, Object: object, Origin: i.Origin})
	}
	return out, nil
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

// load loads and checks a folder.
func load(tree fs.FS, folder string) (Loaded, error) {
	d, err := declared.Load(tree, folder, declared.Limits{})
	if err != nil {
		return Loaded{}, err
	}
	crds, err := knownCRDs()
	if err != nil {
		return Loaded{}, err
	}
	types, err := catalog.Load()
	if err != nil {
		return Loaded{}, err
	}
	found := lint.Check(d, crds)
	found = append(found, expanding(d, found)...)
	found = append(found, aws.Check(d.Set)...)
	out := Loaded{Set: d.Set}
	for _, f := range gpulint.Check(d, types) {
		if f.Advice {
			out.Notes = append(out.Notes, plan.Note{Key: f.Key, Origin: f.Origin, Text: "Warning: " + f.Text})
		} else {
			found = append(found, f.Problem())
		}
	}
	out.Problems = lint.Sorted(found)
	return out, nil
}

// expanding is why nothing can be made of a DevicePlugin, but of one whose schema
// was complained about already.
func expanding(d declared.Declared, found []state.Problem) []state.Problem {
	known := map[state.Origin]bool{}
	for _, i := range d.Set.Items() {
		if i.Key.Kind == "DevicePlugin" {
			known[i.Origin] = slices.ContainsFunc(found, func(p state.Problem) bool { return strings.HasPrefix(p.Message, i.Key.String()+": ") })
		}
	}
	_, problems := deviceplugin.Expand(d.Set)
	return slices.DeleteFunc(problems, func(p state.Problem) bool { return known[p.Origin] })
}

// knownCRDs are the definitions of our own kinds and of Karpenter's.
func knownCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	out, err := engine.CRDs(engine.DefaultSettings())
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded CRDs: %w", err)
	}
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
