package wire

import (
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

// judgeable leaves out the findings about fields that hold such variables: nobody knows
// here what they will be. What else is found in the same object stays.
func (of draft) judgeable(d declared.Declared, found []state.Problem) []state.Problem {
	return of.sift(d.Set, d.Documents(), found)
}

// readInProcess bounds the files of a proposal that are read in this process, which is the
// controller: what is beyond it counts as not found, and the finding stays.
var readInProcess = manifest.Limits{FileBytes: 256 << 10, TotalBytes: 2 << 20, Nodes: 20_000, TotalNodes: 100_000}

// judgeableIn is judgeable where a set and the files that it comes from are at hand.
func (of draft) judgeableIn(set state.Set, files fs.FS, found []state.Problem) []state.Problem {
	tree := manifest.NewTree(files, readInProcess)
	read := map[string][]manifest.Document{}
	return of.sift(set, func(at state.Origin) (manifest.Document, bool) {
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

func (of draft) sift(set state.Set, written documents, found []state.Problem) []state.Problem {
	if !of.some() {
		return found
	}
	items := map[inObject]state.Item{} // By the words that begin what is found in them.
	for _, item := range set.Items() {
		items[inObject{item.Origin.File, item.Key.String()}] = item
	}
	return slices.DeleteFunc(slices.Clone(found), func(p state.Problem) bool {
		key, text, said := strings.Cut(p.Message, ": ")
		if item, ok := items[inObject{p.Origin.File, key}]; ok && said {
			return !substitute.Disabled(item.Object) && of.open(item.Object, text)
		}
		return of.openIn(written, p)
	})
}

// open reports whether a finding about an object is one about a field that holds such a
// variable. Its text begins with the path of the field, if it names one.
func (of draft) open(object map[string]any, text string) bool {
	path, said, named := strings.Cut(text, ": ")
	if !named || strings.Contains(path, " ") {
		path, said = "", text
	}
	if strings.HasPrefix(said, "unknown field") {
		return of.inText(path) // Whatever its value is.
	}
	value, there := any(object), true
	if path != "" {
		value, there = lint.Field(object, path)
	}
	switch {
	case !there:
		return of.inText(path)
	case path == "" || path == "spec":
		return of.about(value, said)
	}
	_, single := value.(string)
	return (of.inText(path) || of.inside(value)) && (single || !aboutPresence(said))
}

// aboutPresence reports whether a rule asks which fields there are, which does not depend
// on what is in them.
func aboutPresence(said string) bool {
	return slices.ContainsFunc([]string{"exactly one of", "at least one", "mutually exclusive", "must be set with"}, func(words string) bool { return strings.Contains(said, words) })
}

// inside reports whether a text or a key in a value holds such a variable.
func (of draft) inside(value any) bool {
	held := false
	substitute.Walk(value, func(_ []string, _ bool, text string) { held = held || of.inText(text) })
	return held
}

// about reports whether what is said of a whole object names a field in it that holds
// such a variable.
func (of draft) about(value any, said string) bool {
	words := regexp.MustCompile(`[A-Za-z]+`).FindAllString(said, -1)
	held := false
	substitute.Walk(value, func(path []string, _ bool, text string) {
		named := slices.ContainsFunc(path, func(key string) bool { return key == text }) || slices.Contains(words, nearest(path))
		held = held || named && of.inText(text)
	})
	return held && !aboutPresence(said)
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

// openIn is open for a finding about what is not in the set, or not as it is written: of
// an object that could not be upgraded, and of what an upgrade changes.
func (of draft) openIn(written documents, p state.Problem) bool {
	text := strings.TrimPrefix(p.Message, lint.NeedsPerson)
	if _, rest, ok := strings.Cut(text, ": "); ok {
		text = rest
	}
	if of.inText(text) {
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
		if n != nil && n.Kind == yaml.ScalarNode && of.inText(n.Value) {
			return true
		}
	}
	return false
}

// inText reports whether a text holds such a variable.
func (of draft) inText(text string) bool {
	return slices.ContainsFunc(substitute.Uses(text), func(v substitute.Use) bool { return of.has(v.Name) })
}
