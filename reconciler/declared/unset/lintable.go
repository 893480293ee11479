package unset

import (
	"cmp"
	"io/fs"
	"regexp"
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
	case p.Field == "" || p.Field == "spec":
		return u.inText(p.Detail) || u.named(value, p.Detail)
	}
	_, single := value.(string)
	return (u.inText(p.Field) || u.inValue(value)) && (single || !aboutPresence(p.Detail))
}

// aboutPresence reports whether a rule tests which fields there are, which does not
// depend on what is in them. Rules are CEL of other people's schemas: their message is
// all that an API server returns of them.
func aboutPresence(rest string) bool {
	return slices.ContainsFunc([]string{"exactly one of", "at least one", "mutually exclusive", "must be set with"}, func(phrase string) bool { return strings.Contains(rest, phrase) })
}

// inValue reports whether a text or a key in a value holds such a variable.
func (u Variables) inValue(value any) bool {
	found := false
	substitute.Walk(value, func(_ []string, _ bool, text string) { found = found || u.inText(text) })
	return found
}

// named reports whether a finding about a whole object names a field in it that holds
// such a variable.
func (u Variables) named(value any, rest string) bool {
	names := regexp.MustCompile(`[A-Za-z]+`).FindAllString(rest, -1)
	found := false
	substitute.Walk(value, func(path []string, _ bool, text string) {
		named := slices.ContainsFunc(path, func(key string) bool { return key == text }) || slices.Contains(names, nearest(path))
		found = found || named && u.inText(text)
	})
	return found && !aboutPresence(rest)
}

// nearest is the last key of a path that is no index.
func nearest(path []string) string {
	for _, key := range slices.Backward(path) {
		if strings.Trim(key, "0123456789") != "" {
			return key
		}
	}
	return ""
}

// dependsIn is depends for a finding about what is not in the set, or not as it is written: of
// an object that could not be converted, and of what a conversion changes.
func (u Variables) dependsIn(written documents, p state.Problem) bool {
	text := cmp.Or(p.Detail, p.Message) + " " + p.Field
	if u.inText(text) {
		return true
	}
	doc, ok := written(p.Origin)
	if !ok {
		return false
	}
	for _, path := range regexp.MustCompile(`\bspec\.[A-Za-z.]*[A-Za-z]`).FindAllString(text, -1) {
		n := doc.Node
		for key := range strings.SplitSeq(path, ".") {
			n = manifest.Child(n, key)
		}
		if n != nil && n.Kind == yaml.ScalarNode && u.inText(n.Value) {
			return true
		}
	}
	return false
}

// inText reports whether a text holds such a variable.
func (u Variables) inText(text string) bool {
	return slices.ContainsFunc(substitute.Uses(text), func(v substitute.Use) bool { return u.has(v.Name) })
}
