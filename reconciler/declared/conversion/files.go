package conversion

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/inplace"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/table"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Files converts all manifests of a folder of fsys and below, in place: whatever need not
// change keeps its bytes, comments and order above all. Folders whose names start
// with a dot are left out, and so are symbolic links, whose targets are converted
// where they are.
//
// An error is one of reading the files, or a limit that they break.
func Files(fsys fs.FS, folder string, opts Options) (Result, error) {
	t, err := table.Read()
	if err != nil {
		return Result{}, err
	}
	f := &files{run: newConverter(t, opts), tree: manifest.NewTree(fsys, manifest.Limits{}), patches: map[string]bool{}}
	if err := f.folder(folder, 0); err != nil {
		return Result{}, fmt.Errorf("reading the manifests: %w", err)
	}
	for _, p := range f.pages {
		f.collect(p)
	}
	f.run.convertAll()
	out := Result{Files: map[string][]byte{}}
	for _, p := range f.pages {
		if content := f.print(p); !bytes.Equal(content, p.content) {
			out.Files[p.name] = content
		}
	}
	f.skipBlocked(&out)
	out.Changes = sorted(f.run.changes)
	return out, nil
}

// page is one file that may change.
type page struct {
	name    string
	content []byte
	docs    []manifest.Document
	text    *inplace.File
}

type files struct {
	run     *converter
	tree    *manifest.Tree
	pages   []*page
	patches map[string]bool // files that are merged into others
	count   int
}

func (f *files) folder(folder string, depth int) error {
	if depth > f.tree.Limits().Depth {
		return manifest.LimitError("folder %s is nested deeper than %d", folder, f.tree.Limits().Depth)
	}
	entries, err := f.tree.List(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if f.count++; f.count > f.tree.Limits().Files {
			return manifest.LimitError("there are more than %d files", f.tree.Limits().Files)
		}
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			err = f.folder(name, depth+1)
		case e.Type().IsRegular() && (manifest.IsManifest(name) || e.Name() == "Kustomization"):
			err = f.readFile(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readFile reads one. What does not parse is another command's to complain of, unless
// it could be something to convert.
func (f *files) readFile(name string) error {
	content, err := f.tree.Read(name)
	if err != nil {
		if f.tree.Err() != nil {
			return f.tree.Err()
		}
		return nil
	}
	if !bytes.Contains(content, []byte("karpenter")) && !bytes.Contains(content, []byte("poolwright.dev")) && !isKustomization(name) {
		return nil
	}
	docs, problems, err := f.tree.Parse(name, content)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		if f.old(content) {
			p := problems[0]
			f.run.changes = append(f.run.changes, Change{Origin: p.Origin, Grade: Manual, Blocks: true, Text: "the file names an old API of Karpenter and cannot be parsed: " + p.Message})
		}
		return nil
	}
	p := &page{name: name, content: content, docs: docs, text: f.run.book.Read(name, content, docs)}
	f.pages = append(f.pages, p)
	f.reminders(name, content)
	if isKustomization(name) {
		f.kustomization(p)
	}
	return nil
}

// old reports whether a text names one of the old APIs.
func (f *files) old(content []byte) bool {
	for _, k := range f.run.table.Kinds {
		apiVersion, kind, _ := strings.Cut(k.Old, " ")
		if bytes.Contains(content, []byte(apiVersion)) && bytes.Contains(content, []byte(kind)) {
			return true
		}
	}
	return false
}

// collect finds the objects of a page.
func (f *files) collect(p *page) {
	for _, d := range p.docs {
		f.collectObject(p, d.Node, d.Node, nil, 0)
	}
}

func (f *files) collectObject(p *page, n, root, items *yaml.Node, depth int) {
	if n.Kind != yaml.MappingNode {
		return
	}
	if in := yamlnode.Get(n, "items"); in != nil && in.Kind == yaml.SequenceNode && strings.HasSuffix(yamlnode.Text(yamlnode.Get(n, "kind")), "List") && depth < 5 {
		for _, item := range in.Content {
			f.collectObject(p, item, root, in, depth+1)
		}
		return
	}
	o := &object{file: p.name, line: n.Line, node: n, objectPosition: objectPosition{p.text, root, items}, patch: f.patches[p.name]}
	f.run.identify(o)
	f.run.objects = append(f.run.objects, o)
}

// print is the new content of a page. It is read again, and must mean what was
// meant; where text and tree disagree, the tree is written anew.
func (f *files) print(p *page) []byte {
	content := p.text.Print()
	if bytes.Equal(content, p.content) {
		return content
	}
	content = f.remind(p, content)
	want := p.text.Roots()
	if same(p.name, content, want) {
		return content
	}
	content, err := rewritten(want)
	content = f.remind(p, content)
	if err == nil && same(p.name, content, want) {
		f.run.changes = append(f.run.changes, Change{Origin: state.Origin{File: p.name, Line: 1}, Grade: Lossless, Text: "the file is formatted anew: it is written in a way that cannot be changed in place"})
		return content
	}
	f.run.changes = append(f.run.changes, Change{Origin: state.Origin{File: p.name, Line: 1}, Grade: Manual, Blocks: true, Text: "the file is written in a way that cannot be changed; write it more simply, without tags and anchors, and convert again"})
	return p.content
}

// same reports whether a text reads as these documents.
func same(name string, content []byte, want []*yaml.Node) bool {
	docs, problems, err := manifest.NewTree(nil, manifest.Limits{}).Parse(name, content)
	if err != nil || len(problems) > 0 || len(docs) != len(want) {
		return false
	}
	for i, d := range docs {
		if meaning(d.Node) != meaning(want[i]) {
			return false
		}
	}
	return true
}

// meaning is a document in canonical JSON, read as kubectl reads it.
func meaning(n *yaml.Node) string {
	b, err := yaml.Marshal(n)
	if err != nil {
		return "cannot be written"
	}
	j, err := sigsyaml.YAMLToJSON(b)
	if err != nil {
		return "cannot be read"
	}
	return string(j)
}

// rewritten are documents as the YAML library writes them.
func rewritten(roots []*yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for _, n := range roots {
		if err := enc.Encode(n); err != nil {
			return nil, err
		}
	}
	err := enc.Close()
	return out.Bytes(), err
}
