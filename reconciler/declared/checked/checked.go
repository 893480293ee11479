// Package checked renders a folder and checks it against schemas and by lint, as the process
// does that is started for what a commit contains: it is for untrusted content, and must not
// run in the controller's process, which only uses its types.
//
// It refuses to read a cluster: what only a target can refuse is not found here. Start
// reading at Load.
package checked

import (
	"io/fs"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Folder is what a folder declares, and what is wrong with it. Its JSON form is without the Set.
type Folder struct {
	// Declared is what is rendered. Its Problems are what the loop refuses by the revision
	// alone: while there are any it deletes nothing. What it refuses by expanding the desired
	// state (the Cluster, a DevicePlugin that cannot be expanded) is not among them: the targets
	// report it.
	declared.Declared
	// Refused are the problems that only lint reports before they are applied: the API
	// server refuses them, or they cannot work. They keep nothing else from being
	// applied, or deleted. They are in the order of file and line, as Problems are.
	Refused []state.Problem `json:"refused,omitempty"`
	// Notes are advice, as about GPUs and secrets in Git, whose Severity is warning,
	// and what is followed of Karpenter's old APIs.
	Notes []plan.Note `json:"notes,omitempty"`
	// Clusters are, by Cluster, what its schema refuses, with the lines: the AWS target
	// reads that before it takes a Cluster's values to AWS.
	Clusters ObjectProblems `json:"clusters,omitempty"`
	// UnknownFields are, by object, those of Refused where the embedded schema does not have a
	// field: the controller refuses such an object before anything is applied, unless the
	// cluster has a newer definition that has the field.
	UnknownFields ObjectProblems `json:"unknownFields,omitempty"`
}

// Standards read what folders are checked against, each where something is declared that needs it:
// reading all of them takes longer than rendering most folders.
type Standards struct {
	// CRDs are the definitions of the kinds in some groups.
	CRDs func(declared func(group string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error)
	// Types is the catalog. It is not called for a folder without a NodePool.
	Types func() (*catalog.Catalog, error)
}

// read reads what the objects of a set need.
func (s Standards) read(set state.Set) ([]*apiextensionsv1.CustomResourceDefinition, *catalog.Catalog, error) {
	groups, pools := map[string]bool{}, false
	for item := range set.All() {
		groups[item.Key.Group] = true
		pools = pools || item.Key.Group == "karpenter.sh" && item.Key.Kind == "NodePool"
	}
	crds, err := s.CRDs(func(group string) bool { return groups[group] })
	if err != nil {
		return nil, nil, err
	}
	if !pools {
		return crds, &catalog.Catalog{}, nil
	}
	types, err := s.Types()
	return crds, types, err
}

// Load renders and checks a folder, with the builds that are kept of an earlier revision, which may
// be nil. Its errors are those of declared.Load, and those of standards.
func Load(tree fs.FS, folder string, values substitute.Values, builds *buildcache.Builds, standards Standards) (Folder, error) {
	d, err := declared.Load(tree, folder, declared.Options{Values: values, Builds: builds})
	if err != nil {
		return Folder{}, err
	}
	crds, types, err := standards.read(d.Set)
	if err != nil {
		return Folder{}, err
	}
	out := Folder{Declared: d, Clusters: ObjectProblems{}, UnknownFields: ObjectProblems{}}
	out.Problems = lint.Sorted(d.Problems)
	refused := lint.Refused(d, crds)
	if out.Notes, err = Conversions(d, folder); err != nil {
		return Folder{}, err
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
				out.UnknownFields[key] = of
			}
		}
	}
	for _, f := range gpulint.Check(d, types) {
		if f.Severity == finding.Warning {
			out.Notes = append(out.Notes, warning(f))
		} else {
			out.Refused = append(out.Refused, f.Problem())
		}
	}
	out.Refused = lint.Sorted(out.Refused)
	return out, nil
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
