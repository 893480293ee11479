package wire

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// draft are the variables without a value here: any, or those of some SSM parameters.
type draft struct {
	any    bool
	unread unread
}

// some reports whether there are any.
func (of draft) some() bool { return of.any || len(of.unread) > 0 }

// has reports whether a variable is one of them.
func (of draft) has(variable string) bool {
	_, unread := of.unread[variable]
	return of.any || unread
}

// says what a warning says of a variable.
func (of draft) says(variable string) string {
	if !of.any {
		return of.unread.says(variable)
	}
	return fmt.Sprintf("${%s} has no value here, and fields that hold it are not judged; give it one with --substitute %s=VALUE, or name the Sync's manifest with --sync-file", variable, variable)
}

// says what a warning says of a variable.
func (u unread) says(variable string) string {
	return fmt.Sprintf("${%s} is the value of SSM parameter %s, which is not read here, and fields that hold it are not judged; give it one with --substitute %s=VALUE", variable, u[variable], variable)
}

// judgeable leaves out the findings about fields that hold such variables: nobody knows
// here what they will be.
func (of draft) judgeable(d declared.Declared, found []state.Problem) []state.Problem {
	documents, items := d.Documents(), d.Set.Items()
	return slices.DeleteFunc(found, func(p state.Problem) bool {
		doc, ok := documents(begins(items, p.Origin))
		return ok && of.holds(fieldIn(doc.Node, p.Origin.Line))
	})
}

// judgeableIn is judgeable where nothing but the files is at hand.
func (of draft) judgeableIn(files fs.FS, found []state.Problem) []state.Problem {
	if !of.some() {
		return found
	}
	tree := manifest.NewTree(nil, manifest.Limits{})
	return slices.DeleteFunc(slices.Clone(found), func(p state.Problem) bool {
		content, err := fs.ReadFile(files, p.Origin.File)
		if err != nil {
			return false
		}
		documents, _, err := tree.Parse(p.Origin.File, content)
		return err == nil && slices.ContainsFunc(documents, func(d manifest.Document) bool { return of.holds(fieldIn(d.Node, p.Origin.Line)) })
	})
}

// begins is where the object begins in which a line is.
func begins(items []state.Item, at state.Origin) state.Origin {
	out := state.Origin{File: at.File}
	for _, item := range items {
		if o := item.Origin; o.File == at.File && o.Line <= at.Line && o.Line > out.Line {
			out = o
		}
	}
	return out
}

// fieldIn is what is written in a line: the value of its key, or the item of its list;
// nil where neither begins there.
func fieldIn(n *yaml.Node, line int) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Line == line {
				if i == 0 && n.Line == line {
					return n // The object itself, or an item of a list.
				}
				return n.Content[i+1]
			}
			if found := fieldIn(n.Content[i+1], line); found != nil {
				return found
			}
		}
	case yaml.SequenceNode, yaml.DocumentNode:
		for _, c := range n.Content {
			if found := fieldIn(c, line); found != nil {
				return found
			}
		}
	case yaml.ScalarNode:
		if n.Line == line {
			return n
		}
	case yaml.AliasNode:
		// What it shows is written at its anchor.
	}
	return nil
}

// holds reports whether a text of a node, or a key, holds such a variable.
func (of draft) holds(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	held := n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${")
	if held && !of.any {
		held = slices.ContainsFunc(variablesIn(n.Value), func(v used) bool { return of.has(v.name) })
	}
	return held || slices.ContainsFunc(n.Content, of.holds)
}

// used is a variable as a text uses it.
type used struct {
	name      string
	defaulted bool
}

// variablesIn are the variables of a text, in order. What is escaped is none.
func variablesIn(text string) []used {
	// Group 1 is an escape, 2 the name, 3 what follows it.
	expression := regexp.MustCompile(`(\$\$)|\$\{([A-Za-z_][A-Za-z0-9_]*)([:=-]?[=-]?)`)
	var out []used
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			out = append(out, used{m[2], strings.ContainsAny(m[3], "=-")})
		}
	}
	return out
}

// valueless warns of the variables that have neither a value here nor a default, of each
// where it is first used.
func (of draft) valueless(d declared.Declared) []state.Problem {
	first := map[string]state.Origin{}
	documents := d.Documents()
	for _, item := range d.Set.Items() {
		if unfilled(item.Object) {
			continue
		}
		texts(item.Object, nil, func(path []string, text string) {
			for _, v := range variablesIn(text) {
				if v.defaulted || !of.has(v.name) {
					continue
				}
				at := lineOf(documents, item.Origin, path)
				if was, known := first[v.name]; !known || at.File < was.File || at.File == was.File && at.Line < was.Line {
					first[v.name] = at
				}
			}
		})
	}
	var out []state.Problem
	for _, name := range slices.Sorted(maps.Keys(first)) {
		out = append(out, state.Problem{Origin: first[name], Message: of.says(name)})
	}
	return out
}

// unfilled reports whether an object asks for its text to stay as it is.
func unfilled(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if m, ok := metadata[field].(map[string]any); ok && m["kustomize.toolkit.fluxcd.io/substitute"] == "disabled" {
			return true
		}
	}
	return false
}

// texts visits all texts and keys of a value, in order.
func texts(v any, path []string, visit func(path []string, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clip(path), k)
			visit(at, k)
			texts(v[k], at, visit)
		}
	case []any:
		for i, e := range v {
			texts(e, append(slices.Clip(path), strconv.Itoa(i)), visit)
		}
	case string:
		visit(path, v)
	}
}

// lineOf is where a path of an object is written.
func lineOf(documents func(state.Origin) (manifest.Document, bool), at state.Origin, path []string) state.Origin {
	if doc, ok := documents(at); ok {
		if line, _ := doc.Find(path); line > 0 {
			at.Line = line
		}
	}
	return at
}
