// Package fields reads server-side apply's ownership of fields, and reports with
// it what of a live object is ours, whether that moved, and how to show the
// difference between live and Git.
//
// It works on the JSON form of fieldsV1 directly: the API server's format is a
// tree whose keys are "f:name" (a field), "k:{...}" (the list element with
// these keys), "v:..." (that very value in a set), "i:3" (an index) and "."
// (the thing itself), and an empty tree is a leaf that is owned whole.
//
// It refuses to connect to a cluster and to distinguish kinds; it is pure. Start
// reading at Fingerprint.
package fields

// Tree is a fieldsV1 value. nil owns nothing, an empty Tree owns all below.
type Tree = map[string]any

// All owns everything below it.
func All() Tree { return Tree{} }

// child is the part of the tree that concerns the field with that name.
func child(t Tree, name string) Tree { return branch(t, "f:"+name) }

func branch(t Tree, key string) Tree {
	if len(t) == 0 {
		return t
	}
	sub, _ := t[key].(map[string]any)
	return sub
}
