package fields

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Emptied finds the maps and lists that desired declares without content, and of which
// manager owns contents in live by server-side apply. That makes null of such a one when
// its last owned content goes, which most fields do not take
// (kubernetes-sigs/structured-merge-diff, removeItemsWithSchema). Where the contents are
// removed and the claim to them is given up before, the apply finds nothing to remove.
//
// It returns the contents to remove as JSON pointers, in an order in which each still
// points to the same thing, without those that another manager owns as well; and the
// claim that is left, nil where nothing is emptied.
func Emptied(live, desired map[string]any, manager string) (pointers []string, claim Tree) {
	var others []Tree
	for _, e := range Entries(live) {
		if e.Manager != manager || e.Operation != "Apply" {
			others = append(others, e.Fields)
		}
	}
	e := &emptying{}
	left := e.remaining("", live, desired, Applied(live, manager), others)
	if !e.found {
		return nil, nil
	}
	return e.pointers, left
}

type emptying struct {
	pointers []string
	found    bool
}

// remaining returns what is left of the claim to a thing.
func (e *emptying) remaining(at string, live, desired any, claim Tree, others []Tree) Tree {
	if len(claim) == 0 {
		return claim // Nothing, or all of it as one.
	}
	switch w := desired.(type) {
	case map[string]any:
		l, _ := live.(map[string]any)
		if len(w) == 0 && ownsContent(claim) {
			return e.unclaim(at, claim, others, inMap(l))
		}
		left := maps.Clone(claim)
		for _, k := range slices.Sorted(maps.Keys(w)) {
			if sub := child(claim, k); sub != nil {
				left["f:"+k] = e.remaining(at+"/"+escape(k), l[k], w[k], sub, below(others, "f:"+k))
			}
		}
		return left
	case []any:
		l, _ := live.([]any)
		if len(w) == 0 && ownsContent(claim) {
			return e.unclaim(at, claim, others, inList(l, claim))
		}
		return e.remainingList(at, l, w, claim, others)
	}
	return claim
}

// remainingList does so for the elements that both sides have.
func (e *emptying) remainingList(at string, l, w []any, claim Tree, others []Tree) Tree {
	left := maps.Clone(claim)
	for i, element := range l {
		key := elementKey(claim, element)
		if key == "" {
			continue
		}
		keys := elementKeys(key[len("k:"):])
		same := slices.IndexFunc(w, func(o any) bool { m, ok := o.(map[string]any); return ok && hasKeys(m, keys) })
		if sub := branch(claim, key); same >= 0 && sub != nil {
			left[key] = e.remaining(at+"/"+strconv.Itoa(i), element, w[same], sub, below(others, key))
		}
	}
	return left
}

// content is one owned part of a thing: its key in the claim, and what its pointer ends
// with.
type content struct{ key, name string }

// unclaim takes out what is owned by nobody else. What is left is a claim to the thing
// itself.
func (e *emptying) unclaim(at string, claim Tree, others []Tree, contents []content) Tree {
	e.found = true
	for _, c := range contents {
		if _, ours := claim[c.key]; ours && len(below(others, c.key)) == 0 {
			e.pointers = append(e.pointers, at+"/"+c.name)
		}
	}
	return Tree{}
}

func inMap(m map[string]any) []content {
	var out []content
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, content{"f:" + k, escape(k)})
	}
	return out
}

// inList has the last element first: to remove one moves those behind it.
func inList(l []any, claim Tree) []content {
	var out []content
	for i, element := range slices.Backward(l) {
		key := elementKey(claim, element)
		if key == "" {
			if text, err := json.Marshal(element); err == nil {
				key = "v:" + string(text)
			}
		}
		out = append(out, content{key, strconv.Itoa(i)})
	}
	return out
}

// elementKey is the key by which the claim identifies a list element with keys, or empty.
func elementKey(claim Tree, element any) string {
	m, _ := element.(map[string]any)
	for key := range claim {
		if len(key) < 2 || key[:2] != "k:" {
			continue
		}
		if keys := elementKeys(key[2:]); m != nil && keys != nil && hasKeys(m, keys) {
			return key
		}
	}
	return ""
}

// ownsContent reports whether a claim is to contents, and not only to the thing itself.
func ownsContent(claim Tree) bool {
	for key := range claim {
		if key != "." {
			return true
		}
	}
	return false
}

// below are the claims of others to one content.
func below(others []Tree, key string) []Tree {
	var out []Tree
	for _, o := range others {
		if sub := branch(o, key); sub != nil {
			out = append(out, sub)
		}
	}
	return out
}
