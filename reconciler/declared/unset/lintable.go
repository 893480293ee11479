package unset

import (
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// documents finds what is written where an object is.
type documents func(state.Origin) (manifest.Document, bool)

// Lintable leaves out the findings about fields that hold such variables: their values
// are unknown here. What else is found in the same object stays.
func (u Variables) Lintable(d declared.Declared, found []state.Problem) []state.Problem {
	return u.filter(d.Set, d.Documents(), found)
}

// readInProcess bounds the files of a proposal that are read in this process, which is the
// controller: what is beyond it counts as not found, and the finding stays.
var readInProcess = manifest.Limits{FileBytes: 256 << 10, TotalBytes: 2 << 20, Nodes: 20_000, TotalNodes: 100_000}

// LintableIn is Lintable where a set and the files that it comes from are at hand.
func (u Variables) LintableIn(set state.Set, files fs.FS, found []state.Problem) []state.Problem {
	tree := manifest.NewTree(files, readInProcess)
	read := map[string][]manifest.Document{}
	return u.filter(set, func(at state.Origin) (manifest.Document, bool) {
		if _, known := read[at.File]; !known {
			read[at.File] = nil
			info, err := fs.Stat(files, at.File)
			if err != nil || info.Size() > readInProcess.FileBytes || tree.Err() != nil {
				return manifest.Document{}, false
			}
			if content, err := tree.Read(at.File); err == nil {
				read[at.File], _, _ = tree.Parse(at.File, content)
			}
		}
		return manifest.Around(read[at.File], at.Line)
	}, found)
}

// filter leaves out what depends on the variables.
func (u Variables) filter(set state.Set, written documents, found []state.Problem) []state.Problem {
	if !u.Exist() {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(p state.Problem) bool {
		if item, ok := set.Get(p.Object); ok && item.Origin.File == p.Origin.File {
			return !substitute.Disabled(item.Object) && u.depends(item.Object, p)
		}
		return u.dependsIn(written, p)
	})
}

// depends reports whether a finding about an object is one about a field that holds such a
// variable.
func (u Variables) depends(object map[string]any, p state.Problem) bool {
	if p.UnknownField != "" {
		return u.inText(p.UnknownField) // Whatever its value is.
	}
	value, there := any(object), true
	if p.Field != "" {
		value, there = lint.Field(object, p.Field)
	}
	switch {
	case !there:
		return u.inText(p.Field)
	case p.Rule:
		return u.inFields(value, strings.Fields(p.RuleFields))
	case p.Field == "" || p.Field == "spec":
		return u.inText(string(p.Facts))
	}
	return u.inText(p.Field) || u.inValue(value)
}

// inValue reports whether a text or a key in a value holds such a variable.
func (u Variables) inValue(value any) bool {
	found := false
	substitute.Walk(value, func(_ []string, _ bool, text string) { found = found || u.inText(text) })
	return found
}

// inFields reports whether a text or a key below one of the fields of a value holds such a variable, or below the value
// itself where it is among them.
func (u Variables) inFields(value any, fields []string) bool {
	found := false
	substitute.Walk(value, func(path []string, _ bool, text string) {
		read := slices.Contains(fields, "self") || slices.ContainsFunc(path, func(key string) bool { return slices.Contains(fields, key) })
		found = found || read && u.inText(text)
	})
	return found
}

// dependsIn is depends for a finding about what is not in the set, or not as it is written: of
// an object that could not be converted, and of what a conversion changes.
func (u Variables) dependsIn(written documents, p state.Problem) bool {
	if u.inText(string(p.Facts)) || u.inText(p.Field) {
		return true
	}
	doc, ok := written(p.Origin)
	if !ok || p.Field == "" {
		return false
	}
	n := doc.Node
	for key := range strings.SplitSeq(p.Field, ".") {
		n = manifest.Child(n, key)
	}
	return n != nil && n.Kind == yaml.ScalarNode && u.inText(n.Value)
}

// inText reports whether a text holds such a variable.
func (u Variables) inText(text string) bool {
	return slices.ContainsFunc(substitute.Uses(text), func(v substitute.Use) bool { return u.has(v.Name) })
}
