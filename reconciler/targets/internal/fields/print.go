package fields

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Fingerprint is what must be recorded of a live object to report later, without a request,
// whether anything of ours has moved. Its JSON form is without ResourceVersion: the first List
// after a restart brings it.
type Fingerprint struct {
	// UID is the incarnation.
	UID string `json:"uid,omitempty"`
	// ResourceVersion moves with every write, also of status.
	ResourceVersion string `json:"-"`
	// Generation moves with the spec, and is 0 for kinds that have none.
	Generation int64 `json:"generation,omitempty"`
	// Fields is the hash of what we own, Meta of our labels, annotations,
	// finalizers and owner references, Values of all our fields' values.
	Fields string `json:"fields,omitempty"`
	Meta   string `json:"meta,omitempty"`
	Values string `json:"values,omitempty"`
	// Spec is the hash of the whole spec, where all of it is ours.
	Spec string `json:"spec,omitempty"`
}

// Options are how an object is to be compared.
type Options struct {
	// Manager is the field manager that is us.
	Manager string
	// WholeSpec reports that the whole spec is ours, not only what we applied.
	WholeSpec bool
	// Ignored are JSON pointers to the fields of which any value is as good.
	Ignored []string
	// Secret replaces state.Hash where values must not be guessable from
	// their hash; nil otherwise.
	Secret func(any) string
}

// FingerprintOf makes the Fingerprint of a live object.
func FingerprintOf(object map[string]any, o Options) Fingerprint {
	p := Identify(object)
	set := Applied(object, o.Manager)
	hash := state.Hash
	if o.Secret != nil {
		hash = o.Secret
	}
	p.Fields = state.Hash(set)
	p.Meta = hash(pick(object["metadata"], ofMeta(set)))
	p.Values = hash(pick(object, orNone(set)))
	if o.WholeSpec {
		p.Spec = hash(withoutIgnored(object, o.Ignored)["spec"])
	}
	return p
}

// ofMeta is the part of a tree that matters in metadata although it does not
// move the generation.
func ofMeta(t Tree) Tree {
	meta := child(t, "metadata")
	out := orNone(nil)
	for _, field := range []string{"f:labels", "f:annotations", "f:finalizers", "f:ownerReferences"} {
		if claim := branch(meta, field); claim != nil {
			out[field] = claim
		}
	}
	return out
}

// Identify makes a Fingerprint without hashes.
func Identify(object map[string]any) Fingerprint {
	metadata, _ := object["metadata"].(map[string]any)
	p := Fingerprint{UID: text(metadata, "uid"), ResourceVersion: text(metadata, "resourceVersion")}
	switch g := metadata["generation"].(type) {
	case int64:
		p.Generation = g
	case float64:
		p.Generation = int64(g)
	}
	return p
}

// Same reports whether what we own is in later as it was in p. It follows the design's
// order: another incarnation never is the same; an untouched generation with our claim
// and our metadata untouched is; otherwise the values decide.
func (p Fingerprint) Same(later Fingerprint) bool {
	switch {
	case p.UID == "" || p.UID != later.UID:
		return false
	case p.Untouched(later):
		return true
	case p.Generation > 0 && p.Generation == later.Generation && p.Fields == later.Fields && p.Meta == later.Meta:
		return true
	}
	return p.Values == later.Values && p.Spec == later.Spec
}

// Untouched reports whether nobody has written the object since p, by its identity alone, as
// Identify returns it.
func (p Fingerprint) Untouched(later Fingerprint) bool {
	return p.UID != "" && p.UID == later.UID && p.ResourceVersion != "" && p.ResourceVersion == later.ResourceVersion
}

// orNone makes sure that no claim is not mistaken for a claim on everything.
// It must not name the thing itself (".") either: that somebody else's first
// annotation brings the map into being is nothing to us.
func orNone(t Tree) Tree {
	if t == nil {
		return Tree{"-": map[string]any{}}
	}
	return t
}

// pick extracts the values that a tree owns, keyed as the tree is.
func pick(value any, t Tree) any {
	if len(t) == 0 {
		return value
	}
	out := make(map[string]any, len(t))
	for key, sub := range t {
		if key == "." {
			out[key] = value != nil
			continue
		}
		below, _ := sub.(map[string]any)
		v, ok := descend(value, key)
		if !ok {
			out[key] = nil
			continue
		}
		out[key] = pick(v, below)
	}
	return out
}

// descend goes one key of a tree down into a value.
func descend(value any, key string) (any, bool) {
	kind, rest, _ := strings.Cut(key, ":")
	if kind == "f" {
		m, _ := value.(map[string]any)
		v, ok := m[rest]
		return v, ok
	}
	list, _ := value.([]any)
	switch kind {
	case "k":
		keys := elementKeys(rest)
		for _, e := range list {
			if m, ok := e.(map[string]any); ok && keys != nil && hasKeys(m, keys) {
				return e, true
			}
		}
	case "v":
		var want any
		if json.Unmarshal([]byte(rest), &want) != nil {
			return nil, false
		}
		for _, e := range list {
			if state.Equal(e, want) {
				return e, true
			}
		}
	case "i":
		if i, err := strconv.Atoi(rest); err == nil && i >= 0 && i < len(list) {
			return list[i], true
		}
	}
	return nil, false
}

// elementKeys reads the keys of a "k:" step; nil where they are malformed.
func elementKeys(text string) map[string]any {
	var keys map[string]any
	if json.Unmarshal([]byte(text), &keys) != nil {
		return nil
	}
	return keys
}

func hasKeys(m, keys map[string]any) bool {
	for k, v := range keys {
		if !state.Equal(m[k], v) {
			return false
		}
	}
	return true
}
