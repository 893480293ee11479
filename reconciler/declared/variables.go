package declared

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// refuseUnfilled leaves out of what was rendered, with a Problem each, the objects that
// nodes are made of and that hold a variable. It is for a Sync without any: such text
// would reach the cluster as it is, and no node would ever come of it.
func (d *Declared) refuseUnfilled(objects []manifest.Object) []manifest.Object {
	documents := d.Documents()
	return slices.DeleteFunc(objects, func(o manifest.Object) bool {
		path, name := unfilled(o.Object)
		if name == "" {
			return false
		}
		at := o.Origin
		if doc, ok := documents(at); ok {
			at.Line, _ = doc.Find(path)
		}
		d.Problems = append(d.Problems, state.NewProblem(at, finding.New(codeVariableNotSubstituted,
			"%v %s holds ${%s}, and the Sync has no variables: set %s in its spec.substitute, or on a command line with --substitute %s=VALUE or --sync-file; "+
				"where the text is meant as it is, put the annotation %s: disabled on the object",
			finding.NewFact("kind", o.Object["kind"]), finding.NewFact("name", named(o.Object)), finding.NewFact("variable", name), name, name, substitute.SubstituteKey)))
		return true
	})
}

// unfilled is the first field of an object of Karpenter's or ours that holds a variable,
// and the variable's name; empty where none does. User data is a script, and has
// variables of its own; other kinds stay as Flux has them.
func unfilled(object map[string]any) (path []string, name string) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, _, _ := strings.Cut(version, "/")
	switch group + "/" + kind {
	case "karpenter.sh/NodePool", "karpenter.sh/Provisioner", "karpenter.sh/NodeOverlay",
		"karpenter.k8s.aws/EC2NodeClass", "karpenter.k8s.aws/AWSNodeTemplate",
		"poolwright.dev/Cluster", "poolwright.dev/DevicePlugin":
	default:
		return nil, ""
	}
	if substitute.Disabled(object) {
		return nil, ""
	}
	substitute.Walk(object, func(at []string, _ bool, text string) {
		if name != "" || script(at) {
			return
		}
		if uses := substitute.Uses(text); len(uses) > 0 {
			path, name = slices.Clone(at), uses[0].Name
		}
	})
	return path, name
}

// script reports the fields that may hold a shell's variables: user data, and kubectl's
// copy of it.
func script(path []string) bool {
	switch len(path) {
	case 2:
		return path[0] == "spec" && path[1] == "userData"
	case 3:
		return path[0] == "metadata" && path[2] == "kubectl.kubernetes.io/last-applied-configuration"
	}
	return false
}

// named is an object's name as it is written.
func named(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return name
}

// fill puts the variables' values into what was rendered.
func (d *Declared) fill(objects []manifest.Object, values substitute.Values) ([]manifest.Object, error) {
	objects, problems, err := substitute.Apply(objects, values, substitute.Options{
		Strict: true, Documents: d.Documents(), Limits: d.limits,
	})
	d.Problems = append(d.Problems, problems...)
	return objects, err
}
