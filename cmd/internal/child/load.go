package child

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Loaded is what a folder declares, and what is wrong with it: maxFindings of each kind,
// and one that stands for the rest.
type Loaded struct {
	// Set holds the objects that have no problem of their form; see
	// declared.Declared.
	Set state.Set
	// Problems are what the loop refuses by the revision alone: while there are any it
	// deletes nothing. What it refuses by asking its worlds what they want (the Cluster,
	// a DevicePlugin of which nothing can be made) is not among them: whoever asks the
	// worlds is told by them. They are in the order of file and line, as Refused are.
	Problems []state.Problem
	// Refused are the mistakes that only lint tells before they are applied: the API
	// server refuses them, or they cannot work. They keep nothing else from being
	// applied, or deleted.
	Refused []state.Problem
	// Notes are advice, as about GPUs and secrets in Git, whose Warning is true,
	// and what is followed of Karpenter's old APIs.
	Notes []plan.Note
	// Clusters are, by Cluster, what its schema refuses, with the lines: the AWS world
	// asks for that before it takes a Cluster's values to AWS.
	Clusters map[state.Key][]state.Problem
	// Unknown are, by object, those of Refused where the embedded schema does not have a
	// field: the controller refuses such an object before anything is applied, unless the
	// cluster has a newer definition that has the field.
	Unknown map[state.Key][]state.Problem
}

// Rendered is a Loaded as the child wrote it, which takes a twentieth of the memory.
// The zero value holds nothing.
type Rendered struct{ raw []byte }

// Bytes is how much memory it takes, in bytes.
func (r Rendered) Bytes() int64 { return int64(cap(r.raw)) }

// Loaded decodes it anew each time: nobody else has what it returns.
func (r Rendered) Loaded() (Loaded, error) {
	var found result
	if len(r.raw) > 0 {
		if err := utiljson.Unmarshal(r.raw, &found); err != nil {
			return Loaded{}, fmt.Errorf("reading what was rendered: %w", err)
		}
	}
	items := make([]state.Item, len(found.Items))
	for i, f := range found.Items {
		items[i] = state.Item{Key: f.Key, Version: f.Version, Object: f.Object, Origin: f.Origin}
	}
	out := Loaded{Set: state.NewSet(items...), Problems: found.Problems, Refused: found.Refused, Notes: found.Notes}
	out.Clusters, out.Unknown = byKey(found.Clusters), byKey(found.Unknown)
	return out.limited(), nil
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
func RenderedOf(l Loaded) (Rendered, error) {
	raw, err := json.Marshal(resultOf(l))
	if err != nil {
		return Rendered{}, fmt.Errorf("writing what was rendered: %w", err)
	}
	return Rendered{raw: raw}, nil
}

// loadRequest is what to load.
type loadRequest struct {
	Folder string `json:"folder"`
	// Links says whether the tree knows symbolic links.
	Links bool `json:"links"`
	// Values are the variables', sealed: the child knows no value of a Secret.
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
	raw, err := t.want(markRequest)
	if err != nil {
		return result{}, err
	}
	var req loadRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		return result{}, fmt.Errorf("reading what to load: %w", err)
	}
	tree := &borrowed{out: t.out, reply: func() ([]byte, error) { return t.want(markReply) }, known: map[string]known{}}
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
	found, err := load(files, req.Folder, values)
	if err != nil {
		return result{}, err
	}
	return resultOf(found), nil
}

func resultOf(l Loaded) result {
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

// standards are what folders are checked against.
type standards struct {
	crds  []*apiextensionsv1.CustomResourceDefinition
	types *catalog.Catalog
	err   error
}

func readStandards() (out standards) {
	if out.crds, out.err = crds.Known(); out.err == nil {
		out.types, out.err = catalog.Load()
	}
	return out
}

// load loads and checks a folder.
func load(tree fs.FS, folder string, values substitute.Values) (Loaded, error) {
	// Reading these takes longer than rendering most folders.
	standard := make(chan standards, 1)
	go func() { standard <- readStandards() }()
	d, err := declared.Load(tree, folder, declared.Options{Values: values})
	if err != nil {
		return Loaded{}, err
	}
	by := <-standard
	if by.err != nil {
		return Loaded{}, by.err
	}
	out := Loaded{Set: d.Set, Problems: lint.Sorted(d.Problems), Clusters: map[state.Key][]state.Problem{}, Unknown: map[state.Key][]state.Problem{}}
	refused := lint.Refused(d, by.crds)
	if out.Notes, err = Upgrades(d, folder); err != nil {
		return Loaded{}, err
	}
	out.Notes = append(out.Notes, advice(d, refused)...)
	reported := refusedByTargets(d.Set)
	for key, of := range refused {
		switch {
		case isCluster(key):
			out.Clusters[key] = of
		case !reported(key):
			out.Refused = append(out.Refused, of...)
			if slices.ContainsFunc(of, func(p state.Problem) bool { return p.UnknownField != "" }) {
				out.Unknown[key] = of
			}
		}
	}
	for _, f := range gpulint.Check(d, by.types) {
		if f.Advice {
			out.Notes = append(out.Notes, plan.Note{Key: f.Key, Origin: f.Origin, Warning: true, Text: f.Text})
		} else {
			out.Refused = append(out.Refused, f.Problem())
		}
	}
	out.Refused = lint.Sorted(out.Refused)
	return out.limited(), nil
}

// advice is what lint finds beyond what is refused: what an API server takes, and a
// person should not commit. It needs no schemas.
func advice(d declared.Declared, refused map[state.Key][]state.Problem) []plan.Note {
	known := map[state.Problem]bool{}
	for _, p := range d.Problems {
		known[p] = true
	}
	for _, of := range refused {
		for _, p := range of {
			known[p] = true
		}
	}
	var out []plan.Note
	for _, f := range lint.Find(d, nil) {
		if !known[f.Problem()] {
			out = append(out, plan.Note{Key: f.Key, Origin: f.Origin, Warning: true, Text: f.Text})
		}
	}
	slices.SortStableFunc(out, func(a, b plan.Note) int {
		return cmp.Or(strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line), strings.Compare(a.Text, b.Text))
	})
	return slices.Compact(out)
}

// isCluster reports whether a key is that of a Cluster: what its schema refuses, the AWS
// target reports.
func isCluster(key state.Key) bool {
	return key.Group == v1alpha1.GroupVersion.Group && key.Kind == "Cluster"
}

// refusedByTargets reports of a refused object whether a target refuses it as well when it
// expands the desired state: a DevicePlugin that cannot be expanded.
func refusedByTargets(set state.Set) func(state.Key) bool {
	refused := sync.OnceValue(func() map[state.Origin]bool {
		out := map[state.Origin]bool{}
		_, problems := deviceplugin.Expand(set)
		for _, p := range problems {
			out[p.Origin] = true
		}
		return out
	})
	return func(key state.Key) bool {
		if key.Group != v1alpha1.GroupVersion.Group || key.Kind != "DevicePlugin" {
			return false
		}
		item, _ := set.Get(key)
		return refused()[item.Origin]
	}
}
