package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Object is one Kubernetes object, where it was written.
type Object struct {
	// Item has the content and the object's first line; what is read of the content, only after
	// Checked or Draft.
	state.Item
	// Kustomization is the kustomization file that rendered the object, or empty where
	// its own file was read as it is.
	Kustomization string `json:"via,omitempty"`
}

// Objects reads a document as objects: itself, or the items of a List.
func (d Document) Objects() ([]Object, []state.Problem) {
	v, err := d.Value()
	if err != nil {
		return nil, []state.Problem{state.NewProblem(d.Origin(), finding.New(finding.ObjectInvalid, "this cannot be read: %v", finding.NewFact("reason", err)))}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, []state.Problem{state.NewProblem(d.Origin(), finding.New(codeNotAnObject, "this is not a Kubernetes object: it must start with apiVersion and kind"))}
	}
	return expand(d, d.Node, m, 0)
}

// maxListDepth bounds lists of lists.
const maxListDepth = 5

func expand(d Document, n *yaml.Node, m map[string]any, depth int) ([]Object, []state.Problem) {
	items, isList := m["items"].([]any)
	kind, _ := m["kind"].(string)
	if !isList || !strings.HasSuffix(kind, "List") || depth >= maxListDepth {
		return []Object{{Item: state.Item{Object: m, Origin: d.At(n)}}}, nil
	}
	nodes := Items(Child(n, "items"))
	var objects []Object
	var problems []state.Problem
	for i, item := range items {
		at := n
		if i < len(nodes) {
			at = nodes[i]
		}
		im, ok := item.(map[string]any)
		if !ok {
			problems = append(problems, state.NewProblem(d.At(at), finding.New(codeNotAnObject, "an item of a List must be a Kubernetes object")))
			continue
		}
		o, p := expand(d, at, im, depth+1)
		objects, problems = append(objects, o...), append(problems, p...)
	}
	return objects, problems
}

// strictGroups are the API groups whose names are all DNS subdomains. Others
// (RBAC above all) allow more.
func strictGroup(group string) bool {
	switch group {
	case "", "apps", "batch", "policy", "apiextensions.k8s.io", "networking.k8s.io",
		"karpenter.sh", "karpenter.k8s.aws", "poolwright.dev":
		return true
	}
	return false
}

// Checked checks what every Kubernetes object must have, and returns the Item with its key and
// version, of the target Kubernetes. The message of an error ends in what to do.
func (o Object) Checked() (state.Item, error) { return o.checked(false) }

// ItemWithVariables is Checked for an object whose variables have no values yet: a name and a
// namespace that hold a variable, such as ${NAME}, are not checked.
func (o Object) ItemWithVariables() (state.Item, error) { return o.checked(true) }

func (o Object) checked(draft bool) (state.Item, error) {
	apiVersion, _ := o.Object["apiVersion"].(string)
	kind, _ := o.Object["kind"].(string)
	switch {
	case apiVersion == "" && kind == "":
		return state.Item{}, fmt.Errorf("this is not a Kubernetes object: it has neither apiVersion nor kind; move files that are not manifests out of the folder, or name it in a kustomization")
	case apiVersion == "":
		return state.Item{}, fmt.Errorf("%s has no apiVersion; add it", kind)
	case kind == "":
		return state.Item{}, fmt.Errorf("this object of %s has no kind; add it", apiVersion)
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Version == "" {
		return state.Item{}, fmt.Errorf("apiVersion %q is not of the form group/version", apiVersion)
	}
	meta, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		return state.Item{}, fmt.Errorf("%s has no metadata.name; add it", kind)
	}
	name, err := checkName(kind, gv.Group, meta, draft)
	if err != nil {
		return state.Item{}, err
	}
	namespace, err := checkNamespace(meta, draft)
	if err != nil {
		return state.Item{}, fmt.Errorf("%s/%s: %w", kind, name, err)
	}
	for _, field := range []string{"labels", "annotations"} {
		if err := checkTexts(meta, field); err != nil {
			return state.Item{}, fmt.Errorf("%s/%s: %w", kind, name, err)
		}
	}
	o.Key = state.Key{Target: state.TargetKubernetes, Group: gv.Group, Kind: kind, Namespace: namespace, Name: name}
	o.Version = gv.Version
	return o.Item, nil
}

// checkNamespace returns the namespace, which may be left out, null or empty.
func checkNamespace(meta map[string]any, draft bool) (string, error) {
	given := meta["namespace"]
	if given == nil {
		return "", nil
	}
	namespace, isText := given.(string)
	if !isText {
		return "", fmt.Errorf("metadata.namespace must be text; quote it")
	}
	if namespace == "" || draft && variable(namespace) {
		return namespace, nil
	}
	if msgs := content.IsDNS1123Label(namespace); len(msgs) > 0 {
		return "", fmt.Errorf("namespace %q is not valid: %s", namespace, brief(msgs[0]))
	}
	return namespace, nil
}

func checkName(kind, group string, meta map[string]any, draft bool) (string, error) {
	name, isText := meta["name"].(string)
	if _, given := meta["generateName"]; given && name == "" {
		return "", fmt.Errorf("%s uses generateName, so that every apply would create another one; give it a metadata.name", kind)
	}
	if v, given := meta["name"]; given && !isText && v != nil {
		return "", fmt.Errorf("%s: metadata.name must be text; quote it", kind)
	}
	if name == "" {
		return "", fmt.Errorf("%s has no metadata.name; add it", kind)
	}
	if draft && variable(name) {
		return name, nil
	}
	msgs := content.IsPathSegmentName(name)
	if len(msgs) == 0 && strictGroup(group) {
		msgs = content.IsDNS1123Subdomain(name)
	}
	if len(name) > 253 {
		msgs = append(msgs, "it is longer than 253 characters")
	}
	if len(msgs) > 0 {
		return "", fmt.Errorf("%s: metadata.name %q is not valid: %s", kind, name, brief(msgs[0]))
	}
	return name, nil
}

func variable(text string) bool { return strings.Contains(text, "${") }

// brief leaves out the examples and the expression of a validation message.
func brief(message string) string {
	message, _, _ = strings.Cut(message, " (e.g.")
	return message
}

// checkTexts finds the unquoted true or 1 that the API server would refuse.
func checkTexts(meta map[string]any, field string) error {
	v, given := meta[field]
	if !given || v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("metadata.%s must be a map of texts", field)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if _, ok := m[k].(string); !ok {
			return fmt.Errorf("metadata.%s: the value of %q must be text; quote it", field, k)
		}
	}
	return nil
}
