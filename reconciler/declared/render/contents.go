package render

import (
	"bytes"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/render/fullbuild"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// contents surveys everything that a kustomization names.
func (s *survey) contents(k *kustomization, above []string) (cost, error) {
	var total cost
	first := map[state.Key]state.Origin{}
	for _, field := range []string{"resources", "bases", "components"} {
		for _, e := range entries(k.doc.Node, field) {
			c, err := s.resource(k, field, e, above)
			if err != nil {
				return cost{}, err
			}
			total.plus(c)
			s.duplicates(k, e, first)
		}
	}
	for _, check := range []func(*kustomization) error{s.configuration, s.patches, s.generators, s.plugins, s.values} {
		if err := check(k); err != nil {
			return cost{}, err
		}
	}
	for kind, field := range map[string]string{"ConfigMap": "configMapGenerator", "Secret": "secretGenerator"} {
		if n := len(entries(k.doc.Node, field)); n > 0 {
			total.plus(cost{objects: n, sizes: sizes{kind: {n, s.generated.largest + textOf(manifest.Child(k.doc.Node, field))}}})
		}
	}
	if total.loads > maxLoads || s.tree.Err() != nil {
		return total, s.tree.Err()
	}
	return total, s.apply(k, &total)
}

// entries are the scalars of a list field.
func entries(n *yaml.Node, field string) []*yaml.Node {
	return manifest.Items(manifest.Child(n, field))
}

// resource surveys one entry of resources, bases or components.
func (s *survey) resource(k *kustomization, field string, e *yaml.Node, above []string) (cost, error) {
	at := k.doc.At(e)
	name := s.local(k, at, field, manifest.Text(e))
	if err := s.tree.Err(); err != nil || name == "" {
		return cost{}, err
	}
	info, err := s.tree.Stat(name)
	if err != nil {
		return cost{}, err
	}
	if info.IsDir() {
		c, err := s.folder(name, at, above)
		if field == "components" {
			for _, other := range s.kustomizations {
				if other.folder == name {
					k.components = append(k.components, other)
				}
			}
		}
		return c, err
	}
	if field == "components" {
		s.problem(at, codePathInvalid, "components: %q is a file; name the folder of the component", finding.NewFact("path", manifest.Text(e)))
		return cost{}, nil
	}
	if c, ok := s.resources[name]; ok {
		return c, nil
	}
	docs, err := s.parse(name, at)
	if err != nil {
		return cost{}, err
	}
	c := cost{sizes: sizes{}}
	for _, d := range docs {
		s.checkResource(d, &c)
	}
	s.documents[name], s.resources[name] = docs, c
	return c, nil
}

// duplicates names objects that two entries of one kustomization declare:
// kustomize refuses the second without naming the first.
func (s *survey) duplicates(k *kustomization, e *yaml.Node, first map[state.Key]state.Origin) {
	name, err := s.tree.WithoutLinks(path.Join(k.folder, manifest.Text(e)))
	if err != nil {
		return
	}
	for _, o := range s.declared[name] {
		if at, dup := first[o.key]; dup {
			s.problem(o.at, finding.DuplicateObject, "%s is declared twice in %s, first in %s; remove one", finding.NewFact("object", o.key), finding.NewFact("kustomization", k.file), finding.NewFact("declaredAt", at))
			continue
		}
		first[o.key] = o.at
	}
}

// declaredObject is an object of a resource file.
type declaredObject struct {
	key state.Key
	at  state.Origin
}

// checkResource counts the objects of a document and refuses what kustomize
// would only report for the whole file.
func (s *survey) checkResource(d manifest.Document, c *cost) {
	objects, problems := d.Objects()
	s.problems = append(s.problems, problems...)
	for _, o := range objects {
		if item, err := o.ItemWithVariables(); err != nil {
			s.problem(o.Origin, finding.ObjectInvalid, "%v", finding.NewFact("reason", err))
		} else {
			s.declared[d.File] = append(s.declared[d.File], declaredObject{item.Key, o.Origin})
		}
		kind, _ := o.Object["kind"].(string)
		c.sizes.add(kind, 1, d.Bytes())
	}
	c.objects += len(objects)
}

// file surveys a file that kustomize reads as YAML.
func (s *survey) file(k *kustomization, field string, n *yaml.Node) ([]manifest.Document, error) {
	if n == nil {
		return nil, nil
	}
	at := k.doc.At(n)
	name := s.local(k, at, field, manifest.Text(n))
	if err := s.tree.Err(); err != nil || name == "" {
		return nil, err
	}
	if info, err := s.tree.Stat(name); err != nil || info.IsDir() {
		s.problem(at, codePathInvalid, "%s: %q is a folder; name a file", finding.NewFact("field", field), finding.NewFact("path", manifest.Text(n)))
		return nil, s.tree.Err()
	}
	return s.parse(name, at)
}

// contentsOf are the entries of files that hold one each, or lists of them.
func contentsOf(docs []manifest.Document) []*yaml.Node {
	var out []*yaml.Node
	for _, d := range docs {
		if items := manifest.Items(d.Node); items != nil {
			out = append(out, items...)
			continue
		}
		out = append(out, d.Node)
	}
	return out
}

// inline surveys YAML that is written into a kustomization.
func (s *survey) inline(k *kustomization, field string, n *yaml.Node) ([]manifest.Document, error) {
	docs, problems, err := s.tree.Parse(k.file, []byte(manifest.Text(n)))
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		s.problem(k.doc.At(n), p.Code, "%s: %s", finding.NewFact("field", field), finding.NewFact("reason", p.Message))
	}
	s.fullBuild = s.fullBuild || fullbuild.RequiredByDocuments(docs)
	return docs, nil
}

// patches surveys every kind of patch and replacement.
func (s *survey) patches(k *kustomization) error {
	for _, field := range []string{"patches", "patchesJson6902", "replacements"} {
		for _, e := range entries(k.doc.Node, field) {
			docs, err := s.file(k, field, manifest.Child(e, "path"))
			if err != nil {
				return err
			}
			if patch := manifest.Child(e, "patch"); patch != nil {
				if docs, err = s.inline(k, field, patch); err != nil {
					return err
				}
			}
			if field == "replacements" {
				s.replacements(k, k.doc.At(e), append(contentsOf(docs), e))
			} else {
				s.patch(k, field, e, docs)
			}
		}
	}
	for _, e := range entries(k.doc.Node, "patchesStrategicMerge") {
		var err error
		var docs []manifest.Document
		if text := manifest.Text(e); strings.Contains(text, "\n") || strings.HasPrefix(text, "{") {
			docs, err = s.inline(k, "patchesStrategicMerge", e)
		} else {
			docs, err = s.file(k, "patchesStrategicMerge", e)
		}
		if err != nil {
			return err
		}
		s.patch(k, "patchesStrategicMerge", e, docs)
	}
	return nil
}

// configuration surveys files that change how kustomize works.
func (s *survey) configuration(k *kustomization) error {
	for _, field := range []string{"crds", "configurations"} {
		for _, e := range entries(k.doc.Node, field) {
			docs, err := s.file(k, field, e)
			if err != nil {
				return err
			}
			for _, d := range docs {
				for _, values := range []string{"commonLabels", "labels", "commonAnnotations"} {
					k.extraFields += len(entries(d.Node, values))
				}
			}
		}
	}
	_, err := s.file(k, "openapi", manifest.Child(manifest.Child(k.doc.Node, "openapi"), "path"))
	return err
}

// generators surveys what config maps and secrets are made from. Its messages
// repeat no literal and no line of a file.
func (s *survey) generators(k *kustomization) error {
	for _, field := range []string{"configMapGenerator", "secretGenerator"} {
		for _, e := range entries(k.doc.Node, field) {
			for _, l := range entries(e, "literals") {
				if i := strings.Index(manifest.Text(l), "="); i <= 0 {
					s.problem(k.doc.At(l), codeKustomizationInvalid, "%s: a literal must be of the form key=value", finding.NewFact("field", field))
				}
			}
			for _, f := range entries(e, "files") {
				s.generatedFile(k, field, f)
			}
			envs := entries(e, "envs")
			if env := manifest.Child(e, "env"); env != nil {
				envs = append(slices.Clip(envs), env)
			}
			for _, env := range envs {
				if b := s.generatedFile(k, field, env); !utf8.Valid(b) {
					s.problem(k.doc.At(env), finding.FileUnreadable, "%s: %s must be text in UTF-8, a key=value in each line", finding.NewFact("field", field), finding.NewFact("path", sanitize.Name(manifest.Text(env))))
				}
			}
		}
	}
	// A file is read once and may go into any number of config maps.
	if limit := s.tree.Limits().TotalBytes; s.generated.bytes > limit {
		return manifest.LimitError("%s: the files of its config maps and secrets are larger than %d MiB together", k.file, limit>>20)
	}
	return s.tree.Err()
}

func (s *survey) generatedFile(k *kustomization, field string, n *yaml.Node) []byte {
	given := manifest.Text(n)
	if _, after, ok := strings.Cut(given, "="); ok {
		given = after
	}
	name := s.local(k, k.doc.At(n), field, given)
	if name == "" {
		return nil
	}
	b, err := s.tree.Read(name)
	s.generated.bytes += int64(len(b))
	s.generated.largest = max(s.generated.largest, len(b))
	s.generated.references = max(s.generated.references, bytes.Count(b, []byte(reference)))
	if err != nil && s.tree.Err() == nil {
		s.problem(k.doc.At(n), finding.FileUnreadable, "%s: reading %s: %s", finding.NewFact("field", field), finding.NewFact("path", sanitize.Name(name)), finding.NewFact("reason", unwrapMessage(err)))
	}
	return b
}

// readsNoFile are the built-in transformers that touch nothing but objects. None
// of them may name a file: their configuration could be patched to name
// another one after this survey.
func readsNoFile(kind string) bool {
	switch kind {
	case "AnnotationsTransformer", "ImageTagTransformer", "LabelTransformer", "NamespaceTransformer",
		"PrefixTransformer", "SuffixTransformer", "PrefixSuffixTransformer", "ReplicaCountTransformer",
		"PatchTransformer", "PatchJson6902Transformer":
		return true
	}
	return false
}

// plugins surveys transformers and validators: built-in ones from files or
// inline only.
func (s *survey) plugins(k *kustomization) error {
	for _, field := range []string{"transformers", "validators"} {
		for _, e := range entries(k.doc.Node, field) {
			docs, err := s.pluginDocs(k, field, e)
			if err != nil {
				return err
			}
			for _, d := range docs {
				s.plugin(k, field, e, d)
			}
		}
	}
	return nil
}

func (s *survey) pluginDocs(k *kustomization, field string, e *yaml.Node) ([]manifest.Document, error) {
	if text := manifest.Text(e); strings.Contains(text, "\n") || strings.HasPrefix(text, "{") {
		return s.inline(k, field, e)
	}
	at := k.doc.At(e)
	name := s.local(k, at, field, manifest.Text(e))
	if err := s.tree.Err(); err != nil || name == "" {
		return nil, err
	}
	if info, err := s.tree.Stat(name); err != nil || info.IsDir() {
		s.problem(at, codePathInvalid, "%s: %q is a folder; name the file of a built-in transformer", finding.NewFact("field", field), finding.NewFact("path", manifest.Text(e)))
		return nil, s.tree.Err()
	}
	return s.parse(name, at)
}

func (s *survey) plugin(k *kustomization, field string, e *yaml.Node, d manifest.Document) {
	at := k.doc.At(e)
	v, err := d.Value()
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		s.problem(at, codePluginNotSupported, "%s: only built-in transformers may be named here, by a file or inline", finding.NewFact("field", field))
		return
	}
	kind, _ := m["kind"].(string)
	if m["apiVersion"] != "builtin" || !readsNoFile(kind) {
		s.problem(at, codePluginNotSupported, "%s: %q is not one of kustomize's built-in transformers, and plugins are not run: commit what it makes", finding.NewFact("field", field), finding.NewFact("kind", kind))
		return
	}
	g := growth{at: at, field: field, fields: 1, bytes: d.Bytes()}
	if strings.HasPrefix(kind, "Patch") {
		s.builtinPatch(k, g, m)
	} else {
		g.fields += max(strings.Count(kind, "Label")*copiesOfLabels, len(manifest.Items(manifest.Child(d.Node, "fieldSpecs"))))
		k.grows = append(k.grows, g)
	}
	if p := m["path"]; p != nil && p != "" {
		s.problem(at, codePluginNotSupported, "%s: %s must not read a file; write its content inline", finding.NewFact("field", field), finding.NewFact("kind", kind))
	}
}

// fieldNames are the fields of a kustomization.
func fieldNames() map[string]bool {
	names := map[string]bool{}
	for field := range reflect.TypeFor[types.Kustomization]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			names[name] = true
		}
	}
	names["apiVersion"], names["kind"] = true, true
	return names
}
