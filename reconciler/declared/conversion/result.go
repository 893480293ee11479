package conversion

import (
	"cmp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Grade is how sure a change is.
type Grade int

// The grades, from the one that requires nothing of its reader.
const (
	// Lossless: another spelling of the same.
	Lossless Grade = iota
	// Default: a default of the old API was written down.
	Default
	// Manual: somebody has to review it, and decide or act.
	Manual
)

// Options are what the conversion needs beside the manifests.
type Options struct {
	// KubernetesVersion is the minor version of the EKS cluster, such as "1.33",
	// for what a version refuses. Where it is empty the version of the nearest
	// Cluster among the manifests is taken; where that has none, nothing is reported.
	KubernetesVersion string
	// UnresolvedVariables is true of Objects whose variables have no values yet: nothing is reported of
	// what depends on one.
	UnresolvedVariables bool
	// Documents finds for Objects where an object is written, so that what is reported
	// names the line of a field. Without it the object's is named.
	Documents func(at state.Origin) (manifest.Document, bool)
}

// String is the name that reports use: lossless, default or manual.
func (g Grade) String() string { return [...]string{"lossless", "default", "manual"}[g] }

// Change is one thing that was changed, or that somebody has to do.
type Change struct {
	// Origin is where, in the manifest as it was read.
	Origin state.Origin
	// Object is "Kind/name" as it was read, "Kind/namespace/name" for one with a
	// namespace, or empty where the file is no object.
	Object string
	// Field is the path of the field that it is about, as in spec.limits.resources; empty where it is about none.
	Field string
	Grade Grade
	// Text is what, without values of user data and secrets.
	Text string
	// Blocks is true for what could not be converted and was left as it was.
	Blocks bool
}

// String is the change in one line: where, how sure, what.
func (c Change) String() string {
	out := c.Origin.String() + ": " + c.Grade.String() + ": "
	if c.Object != "" {
		out += c.Object + ": "
	}
	return out + c.Text
}

// Result is what a conversion of files comes to.
type Result struct {
	// Files are the new contents of the files that change, by name.
	Files map[string][]byte
	// Skipped are the files that stay as they are although some of them could change,
	// because of what cannot be converted in them, or in what belongs to them.
	Skipped []string
	// Changes are all changes and warnings, by file and line.
	Changes []Change
}

// Blocked reports whether something could not be converted. The Files are those that
// have nothing to do with it, and can be written without the others.
func (r Result) Blocked() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Blocks })
}

// NeedsPerson reports whether any change does.
func (r Result) NeedsPerson() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Grade == Manual })
}

func sorted(changes []Change) []Change {
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line))
	})
	return slices.Compact(changes)
}
