package declared

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render"
	"github.com/poolwright/poolwright/reconciler/state"
)

// refuseUnfilled takes out of what was rendered, with a Problem each, the objects that
// nodes are made of and that hold a variable. It is for a Sync without any: such text
// would reach the cluster as it is, and no node would ever come of it.
func (d *Declared) refuseUnfilled(found render.Result) render.Result {
	documents := d.Documents()
	var kept []manifest.Object
	for _, o := range found.Objects {
		path, name := unfilled(o.Value)
		if name == "" {
			kept = append(kept, o)
			continue
		}
		at := o.Origin
		if doc, ok := documents(at); ok {
			at.Line, _ = doc.Find(path)
		}
		found.Problems = append(found.Problems, state.Problem{Origin: at, Message: fmt.Sprintf(
			"%v %s holds ${%s}, and the Sync has no variables: set %s in its spec.substitute, or on a command line with --substitute %s=VALUE or --sync-file; "+
				"where the text is meant as it is, put the annotation %s: disabled on the object", o.Value["kind"], named(o.Value), name, name, name, toggle)})
	}
	found.Objects = kept
	return found
}

// toggle is the label or annotation by which Flux and we leave an object's text alone.
const toggle = "kustomize.toolkit.fluxcd.io/substitute"

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
	meta, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if m, ok := meta[field].(map[string]any); ok && m[toggle] == "disabled" {
			return nil, ""
		}
	}
	return firstVariable(object, nil)
}

// firstVariable looks for a variable in keys and texts, in the order of the keys.
func firstVariable(v any, path []string) ([]string, string) {
	path = slices.Clip(path)
	switch v := v.(type) {
	case string:
		return path, variableOf(v)
	case []any:
		for i, e := range v {
			if at, name := firstVariable(e, append(path, strconv.Itoa(i))); name != "" {
				return at, name
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			below := append(path, k)
			if script(below) {
				continue
			}
			if name := variableOf(k); name != "" {
				return below, name
			}
			if at, name := firstVariable(v[k], below); name != "" {
				return at, name
			}
		}
	}
	return nil, ""
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

// variableOf is the name of the first variable in a text. $${NAME} is none: it stands
// for the text ${NAME}.
func variableOf(text string) string {
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			return ""
		}
		text = text[i+1:]
		if strings.HasPrefix(text, "$") {
			text = text[1:]
			continue
		}
		if rest, ok := strings.CutPrefix(text, "{"); ok {
			if n := nameLen(rest); n > 0 {
				return rest[:n]
			}
		}
	}
}

// nameLen is how much of a text is the name of a variable.
func nameLen(text string) int {
	for i, c := range []byte(text) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// named is an object's name as it is written.
func named(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return name
}
