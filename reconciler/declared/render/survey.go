package render

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render/fullbuild"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// survey reads a kustomization and everything that it leads to before kustomize reads
// any of it: kustomize fetches URLs, clones repositories and runs programs that a
// kustomization names, and this is where none of them gets through. What it lets pass
// names only files of the tree.
type survey struct {
	tree     *manifest.Tree
	problems []state.Problem
	// cost is, by folder, how many kustomizations and objects loading it
	// means, bases counted as often as they are used.
	cost map[string]cost
	// documents holds what each resource file declares, for finding the line
	// of a rendered object.
	documents map[string][]manifest.Document
	// candidatesOf are those of files of which all documents were read.
	candidatesOf map[string][]candidate
	// declared holds the objects of each resource file, in its order.
	declared map[string][]declaredObject
	// resources is, by resource file, what its objects come to.
	resources map[string]cost
	// kustomizations are all that were read, by file.
	kustomizations map[string]*kustomization
	// copies are the replacements of all of them.
	copies    []replacement
	generated generatedFiles
	// measured is how long sources of replacements are in so many files.
	measured struct {
		files int
		bytes map[string]int
	}
	// root is the first kustomization's file and content.
	root *kustomization
	separation
}

// separation is what the survey finds of that a kustomization can be rendered in groups.
type separation struct {
	// perGroup is how many objects a group has at least, but for the last.
	perGroup int
	// grouped reports that the objects were rendered in groups.
	grouped bool
	// fullBuild reports that something may lead from one object to any other, so that the
	// kustomization is rendered as a whole.
	fullBuild bool
	// annotationPatched reports a JSON patch of annotations, to which it matters whether there is one.
	annotationPatched bool
	// patchDocuments are those of a kustomization's entries for patches.
	patchDocuments map[*yaml.Node][]manifest.Document
	// folders are the kustomizations by their folders.
	folders map[string]*kustomization
}

// generatedFiles are what goes into config maps and secrets: its size, that of the largest, and
// how many references to vars one has at most.
type generatedFiles struct {
	bytes               int64
	largest, references int
}

// cost is what loading a kustomization means, and what comes of it at most: how many
// objects of which kinds, how many bytes are added to them, and how often something is
// applied to one.
type cost struct {
	loads, objects, applied int
	bytes                   int64
	sizes                   sizes
}

const (
	// maxLoads bounds how often kustomizations are loaded in one render.
	maxLoads = 1_000
	// maxNesting bounds how deeply kustomizations refer to each other.
	maxNesting = 32
)

// kustomization is one kustomization file, read strictly.
type kustomization struct {
	folder string
	file   string
	doc    manifest.Document
	spec   types.Kustomization
	// grows are its entries for many objects, in kustomize's order as far as that
	// matters; components those that it includes.
	grows      []growth
	components []*kustomization
	// extraFields is in how many more places of an object its configurations have values put.
	extraFields int
}

func (s *survey) problem(o state.Origin, code finding.Code, format string, args ...any) {
	s.problems = append(s.problems, state.NewProblem(o, finding.New(code, format, args...)))
}

// folder surveys the kustomization in a folder. The error is for what makes
// the whole tree unusable.
func (s *survey) folder(folder string, from state.Origin, above []string) (cost, error) {
	for _, a := range above {
		if a == folder || strings.HasPrefix(a, folder+"/") || folder == "." {
			s.problem(from, codeKustomizationCycle, "%s is, or holds, a kustomization that leads here: this is a cycle", finding.NewFact("folder", sanitize.Name(folder)))
			return cost{}, nil
		}
	}
	if c, ok := s.cost[folder]; ok {
		return c, nil
	}
	if len(above) >= maxNesting {
		return cost{}, manifest.LimitError("%s: kustomizations refer to each other more than %d deep", from, maxNesting)
	}
	k, err := s.load(folder, from)
	if err != nil || k == nil {
		s.cost[folder] = cost{}
		return cost{}, err
	}
	if s.root == nil {
		s.root = k
	}
	total, err := s.contents(k, append(above, folder))
	if err != nil {
		return cost{}, err
	}
	total.loads++
	if total.loads > maxLoads {
		return cost{}, manifest.LimitError("%s loads more than %d kustomizations", k.file, maxLoads)
	}
	if limit := s.tree.Limits().Objects; total.objects > limit {
		return cost{}, manifest.LimitError("%s declares more than %d objects", k.file, limit)
	}
	s.cost[folder] = total
	return total, nil
}

// load reads a kustomization file; nil when it has problems.
func (s *survey) load(folder string, from state.Origin) (*kustomization, error) {
	file, err := KustomizationFile(s.tree, folder)
	if s.tree.Err() != nil {
		return nil, s.tree.Err()
	}
	if err != nil {
		s.problem(from, codePathInvalid, "folder %s cannot be used: %v", finding.NewFact("path", sanitize.Name(folder)), finding.NewFact("reason", err))
		return nil, nil
	}
	if file == "" {
		s.problem(from, codeKustomizationMissing, "folder %s has no kustomization.yaml; add one, or name its files one by one", finding.NewFact("folder", sanitize.Name(folder)))
		return nil, nil
	}
	docs, err := s.parse(file, state.Origin{File: file})
	if err != nil || docs == nil {
		return nil, err
	}
	if len(docs) != 1 {
		s.problem(state.Origin{File: file}, codeKustomizationInvalid, "a kustomization must be exactly one document; this file holds %d", finding.NewFact("documents", len(docs)))
		return nil, nil
	}
	k := &kustomization{folder: folder, file: file, doc: docs[0]}
	s.kustomizations[file] = k
	if k.doc.Node.Kind != yaml.MappingNode {
		s.problem(k.doc.Origin(), codeKustomizationInvalid, "this is not a kustomization: it must be a map of fields")
		return nil, nil
	}
	known := s.checkFields(k)
	content, err := s.tree.Read(file)
	if err != nil {
		return nil, err
	}
	if err := sigsyaml.UnmarshalStrict(content, &k.spec); err != nil && known {
		s.problem(k.doc.At(blamed(k.doc.Node, err)), codeKustomizationInvalid, "this is not a valid kustomization: %s", finding.NewFact("reason", unwrapMessage(err)))
		return nil, nil
	}
	return k, nil
}

var quotedField = regexp.MustCompile(`unknown field "([^"]+)"|Go struct field \S*\.(\w+) of type`)

// blamed finds the key that a message about a kustomization names.
func blamed(n *yaml.Node, err error) *yaml.Node {
	m := quotedField.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return findKey(n, path.Base(strings.ReplaceAll(m[1]+m[2], ".", "/")))
}

func findKey(n *yaml.Node, key string) *yaml.Node {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == key {
			return c
		}
		if found := findKey(c, key); found != nil {
			return found
		}
	}
	return nil
}

// parse reads a file's documents; nil when it has problems, which are noted.
func (s *survey) parse(file string, from state.Origin) ([]manifest.Document, error) {
	content, err := s.tree.Read(file)
	if s.tree.Err() != nil {
		return nil, s.tree.Err()
	}
	if err != nil {
		s.problem(from, finding.FileUnreadable, "reading %s: %s", finding.NewFact("path", sanitize.Name(file)), finding.NewFact("reason", unwrapMessage(err)))
		return nil, nil
	}
	docs, problems, err := s.tree.Parse(file, content)
	if err != nil {
		return nil, err
	}
	s.problems = append(s.problems, problems...)
	if len(problems) > 0 {
		return nil, nil
	}
	if docs == nil {
		docs = []manifest.Document{}
	}
	s.fullBuild = s.fullBuild || fullbuild.RequiredByDocuments(docs)
	return docs, nil
}

// refused are the fields that run programs or fetch from elsewhere.
func refused(field string) string {
	switch field {
	case "helmCharts", "helmGlobals", "helmChartInflationGenerator":
		return "Helm charts are not rendered: render the chart with helm template and commit the result"
	case "generators":
		return "generator plugins are not run: use configMapGenerator or secretGenerator, or commit what it generates"
	}
	return ""
}

// checkFields names unknown and refused fields with their lines.
func (s *survey) checkFields(k *kustomization) bool {
	before := len(s.problems)
	known := fieldNames()
	for i := 0; i+1 < len(k.doc.Node.Content); i += 2 {
		key := k.doc.Node.Content[i]
		at := k.doc.At(key)
		if reason := refused(key.Value); reason != "" {
			s.problem(at, codeKustomizationFieldNotSupported, "%s: %s", finding.NewFact("field", key.Value), reason)
			continue
		}
		if key.Value != "<<" && !known[key.Value] {
			fields := slices.Collect(maps.Keys(known))
			s.problem(at, codeKustomizationFieldUnknown, "unknown field %q in a kustomization%s", finding.NewFact("field", key.Value), finding.As("suggestion", manifest.ClosestName(key.Value, fields), manifest.Suggestion(key.Value, fields)))
		}
	}
	return len(s.problems) == before
}

// remote matches everything that kustomize takes for an address of another
// machine, and a little more: it decides by the text alone, before it opens a file of
// that name.
var remote = regexp.MustCompile(`(?i)://|^(git::|https?:|ssh:|file:|github\.com[/:]|[a-z][a-z0-9-]*@)`)

// local checks a path of a kustomization and returns its real name in the
// tree, or "" after noting the problem.
func (s *survey) local(k *kustomization, at state.Origin, field, given string) string {
	if remote.MatchString(strings.TrimSpace(given)) {
		s.problem(at, codeRemoteBase, "%s: %s is on another machine, and remote bases are not fetched: copy it into this repository", finding.NewFact("field", field), finding.NewFact("address", sanitize.Name(redact(given))))
		return ""
	}
	switch {
	case given == "":
		s.problem(at, codePathInvalid, "%s: a path is empty", finding.NewFact("field", field))
		return ""
	case path.IsAbs(given):
		s.problem(at, codePathInvalid, "%s: %q is an absolute path; write it relative to this file", finding.NewFact("field", field), finding.NewFact("path", given))
		return ""
	}
	joined := path.Join(k.folder, given)
	if joined == ".." || strings.HasPrefix(joined, "../") {
		s.problem(at, codePathOutsideRepository, "%s: %q leads out of the repository or, outside Git, out of the folder that is read; make what holds both a Git working copy (git init), so that folders beside it can be used", finding.NewFact("field", field), finding.NewFact("path", given))
		return ""
	}
	if !fs.ValidPath(joined) {
		s.problem(at, codePathInvalid, "%s: %q is not a valid path", finding.NewFact("field", field), finding.NewFact("path", given))
		return ""
	}
	real, err := s.tree.WithoutLinks(joined)
	if s.tree.Err() != nil {
		return ""
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.problem(at, codePathNotFound, "%s: %q does not exist; check the path, which is relative to this file", finding.NewFact("field", field), finding.NewFact("path", given))
	case err != nil:
		s.problem(at, codePathInvalid, "%s: %q: %s", finding.NewFact("field", field), finding.NewFact("path", given), finding.NewFact("reason", unwrapMessage(err)))
	default:
		return real
	}
	return ""
}

// redact keeps what a person needs to find an address, without its query or
// user info.
func redact(address string) string {
	address, _, _ = strings.Cut(strings.TrimSpace(address), "?")
	if at := strings.LastIndex(address, "@"); at >= 0 && strings.Contains(address[:at], ":") {
		scheme, _, ok := strings.Cut(address, "://")
		if !ok {
			return "…" + address[at:]
		}
		return scheme + "://…" + address[at:]
	}
	return address
}
