// Package upgrade rewrites manifests of Karpenter's old APIs (Provisioner and
// AWSNodeTemplate, v1alpha5 and v1alpha1; NodePool and EC2NodeClass, v1beta1) for
// v1, so that they mean what they meant, and the labels and annotations that
// other objects name them by.
//
// It is pure: texts or objects in, texts or objects out. What the old API took for
// granted and v1 takes otherwise is written down; what v1 cannot say is left as it
// is and reported, with what to write instead. A second upgrade changes nothing.
// What is sure stands in internal/table/table.yaml; what needs a decision is one function a kind,
// in pool.go and class.go. Start reading at Files and Objects.
package upgrade

import (
	"cmp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/upgrade/internal/table"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Options are what the upgrade must know beside the manifests.
type Options struct {
	// KubernetesVersion is the minor version of the EKS cluster, such as "1.33",
	// for what a version refuses. Where it is empty the version of the nearest
	// Cluster among the manifests is taken; where that has none, nothing is said.
	KubernetesVersion string
	// Draft says of Objects that variables in them have no values yet: nothing is
	// said of what depends on one.
	Draft bool
	// Documents finds for Objects where an object is written, so that what is told
	// names the line of a field. Without it the object's is named.
	Documents func(at state.Origin) (manifest.Document, bool)
}

// Grade is how sure a change is.
type Grade int

// The grades, from the one that asks nothing of its reader.
const (
	// Lossless: another spelling of the same.
	Lossless Grade = iota
	// Default: a default of the old API was written down.
	Default
	// Person: somebody has to look at it, and decide or act.
	Person
)

// String is the word that reports use: lossless, default or person.
func (g Grade) String() string { return [...]string{"lossless", "default", "person"}[g] }

// Change is one thing that was changed, or that somebody has to do.
type Change struct {
	// Origin is where, in the manifest as it was read.
	Origin state.Origin
	// Object is "Kind/name" as it was read, "Kind/namespace/name" for one with a
	// namespace, or empty where the file is no object.
	Object string
	Grade  Grade
	// Text is what, without values of user data and secrets.
	Text string
	// Blocks is true for what could not be upgraded and was left as it was.
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

// Result is what an upgrade of files comes to.
type Result struct {
	// Files are the new contents of the files that change, by name.
	Files map[string][]byte
	// Skipped are the files that stay as they are although some of them could change,
	// because of what cannot be upgraded in them, or in what belongs to them.
	Skipped []string
	// Changes are all changes and remarks, by file and line.
	Changes []Change
}

// Blocked reports whether something could not be upgraded. The Files are those that
// have nothing to do with it, and can be written without the others.
func (r Result) Blocked() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Blocks })
}

// NeedsPerson reports whether any change does.
func (r Result) NeedsPerson() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Grade == Person })
}

func sorted(changes []Change) []Change {
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line))
	})
	return slices.Compact(changes)
}

// Objects upgrades objects that were rendered together, for a loop that follows
// a repository written for an old API. Items that need nothing come back as they
// are, without a copy; the others are new values with the Key and Version of v1
// and the Origin of the old one, and a class that splits brings more of them.
//
// The changes are for a report: none holds anything back. The problems are what
// could not be upgraded, such as a launchTemplate. Those items are left out, so
// that nothing may be pruned while there is a problem, as for any other.
func Objects(items []state.Item, opts Options) ([]state.Item, []Change, []state.Problem, error) {
	t, err := table.Read()
	if err != nil {
		return nil, nil, nil, err
	}
	r := newRun(t, opts)
	r.rendered = true
	out := slices.Clone(items)
	for i, item := range items {
		if r.concerns(item) {
			r.objects = append(r.objects, r.fromItem(item, i))
		}
	}
	r.locate()
	r.upgrade()
	gone := map[int]bool{}
	for _, o := range r.objects {
		switch item := o.toItem(items); {
		case o.blocked:
			gone[o.item] = true
		case o.item < 0:
			out = append(out, item)
		case item.Key != out[o.item].Key || !state.Equal(item.Object, out[o.item].Object):
			out[o.item] = item
		}
	}
	var kept []state.Item
	for i, item := range out {
		if !gone[i] {
			kept = append(kept, item)
		}
	}
	var changes []Change
	var problems []state.Problem
	for _, c := range sorted(r.changes) {
		if c.Blocks {
			problems = append(problems, state.Problem{Origin: c.Origin, Message: c.Object + ": " + c.Text})
		} else {
			changes = append(changes, c)
		}
	}
	return kept, changes, problems, nil
}
