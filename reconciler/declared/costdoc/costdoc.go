// Package costdoc reads the file in which a repository declares what a document states
// of its costs: unit prices, and the figures that are to follow from them.
//
// It is strict: an unknown field, a figure that is no figure and a scenario without
// hours are problems with file and line, and nothing is made of a file that has one. It
// refuses to reckon; package provision/cost does. Start reading at Parse.
package costdoc

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// FileName is what such a file is called.
const FileName = "cost.yaml"

// Limits of one file.
const (
	mostBytes = 256 << 10
	mostRows  = 200
)

// Find is the file of that name in the folder or the nearest one above it, "" where
// there is none. The folder is slash-separated and relative to the root of fsys.
func Find(fsys fs.FS, folder string) string {
	for at := path.Clean(folder); ; at = path.Dir(at) {
		file := path.Join(at, FileName)
		if info, err := fs.Stat(fsys, file); err == nil && info.Mode().IsRegular() {
			return file
		}
		if at == "." || at == "/" {
			return ""
		}
	}
}

// codeDocumentInvalid is of what is wrong with a document's file.
const codeDocumentInvalid finding.Code = "CostDocumentInvalid"

// Read reads and parses a file of a tree. An error is that of the tree.
func Read(fsys fs.FS, file string) (cost.Document, []state.Problem, error) {
	tree := manifest.NewTree(fsys, limits())
	content, err := tree.Read(file)
	if err != nil {
		return cost.Document{}, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return Parse(file, content)
}

func limits() manifest.Limits {
	return manifest.Limits{FileBytes: mostBytes, Depth: 10, Nodes: 10_000}
}

// Parse reads the content of a file, which is called file in problems and in the
// result. Where there are problems the document is not to be used. An error is a
// broken limit.
func Parse(file string, content []byte) (cost.Document, []state.Problem, error) {
	if len(content) > mostBytes {
		return cost.Document{}, nil, manifest.LimitError("%s is larger than %d KiB", file, mostBytes>>10)
	}
	docs, problems, err := manifest.NewTree(nil, limits()).Parse(file, content)
	if err != nil {
		return cost.Document{}, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	r := &reader{file: file, problems: problems}
	switch {
	case len(problems) > 0:
	case len(docs) == 0:
		r.problem(nil, "this file is empty: give it scenarios, or remove it")
	case len(docs) > 1:
		r.problem(docs[1].Node, "a second document starts here; keep one to a file")
	default:
		doc := r.document(docs[0].Node)
		if len(r.problems) == 0 {
			doc.Name = file
			return doc, nil, nil
		}
	}
	return cost.Document{}, r.problems, nil
}

// reader collects the problems of one file.
type reader struct {
	file     string
	problems []state.Problem
}

func (r *reader) problem(at *yaml.Node, format string, args ...any) {
	origin := state.Origin{File: r.file, Line: 1}
	if at != nil && at.Line > 0 {
		origin.Line = at.Line
	}
	r.problems = append(r.problems, state.NewProblem(origin, finding.New(codeDocumentInvalid, format, args...)))
}

func (r *reader) document(n *yaml.Node) cost.Document {
	out := cost.Document{HoursPerMonth: cost.HoursPerMonth}
	f, ok := r.fields(n, "a cost table", "region", "hoursPerMonth", "prices", "scenarios")
	if !ok {
		return out
	}
	if at := f["region"]; at != nil {
		out.Region = r.matching(at, "region", region, "such as eu-west-1")
	}
	if at := f["hoursPerMonth"]; at != nil {
		out.HoursPerMonth = r.number(at, "hoursPerMonth", longestMonth)
	}
	for _, item := range r.list(f["prices"], "prices") {
		if q, ok := r.price(item); ok {
			out.Prices = append(out.Prices, q)
		}
	}
	r.twice(f["prices"], out.Prices)
	for _, item := range r.list(f["scenarios"], "scenarios") {
		if s, ok := r.scenario(item, out.HoursPerMonth); ok {
			out.Scenarios = append(out.Scenarios, s)
		}
	}
	if f["scenarios"] == nil || len(out.Scenarios) == 0 && len(r.problems) == 0 {
		r.problem(n, "scenarios are missing: list the rows of the document's table")
	}
	return out
}

func (r *reader) price(n *yaml.Node) (cost.Quote, bool) {
	before := len(r.problems)
	f, ok := r.fields(n, "a price", "instanceType", "capacityType", "usdPerHour")
	if !ok || !r.needs(n, f, "instanceType", "capacityType", "usdPerHour") {
		return cost.Quote{}, false
	}
	q := cost.Quote{
		InstanceType: r.kind(f["instanceType"]), CapacityType: r.capacity(f["capacityType"]),
		USDPerHour: r.number(f["usdPerHour"], "usdPerHour", mostUSD),
	}
	return q, len(r.problems) == before
}

// twice refuses two prices of the same.
func (r *reader) twice(at *yaml.Node, prices []cost.Quote) {
	found := map[string]bool{}
	for _, q := range prices {
		what := q.CapacityType + " price of " + q.InstanceType
		if found[what] {
			r.problem(at, "the %s is given twice; remove one", what)
		}
		found[what] = true
	}
}

func (r *reader) scenario(n *yaml.Node, month float64) (cost.Scenario, bool) {
	before := len(r.problems)
	f, ok := r.fields(n, "a scenario", "name", "instanceType", "capacityType", "hoursPerDay", "hoursPerMonth", "statedUSD", "statedSavingPercent")
	if !ok || !r.needs(n, f, "name", "instanceType", "capacityType", "statedUSD") {
		return cost.Scenario{}, false
	}
	s := cost.Scenario{
		Name: r.title(f["name"]), InstanceType: r.kind(f["instanceType"]), CapacityType: r.capacity(f["capacityType"]),
		Stated: r.figure(f["statedUSD"], "statedUSD", mostUSD),
	}
	switch day, all := f["hoursPerDay"], f["hoursPerMonth"]; {
	case (day == nil) == (all == nil):
		r.problem(n, "a scenario needs hoursPerDay or hoursPerMonth, and not both")
	case day != nil:
		s.Hours = r.number(day, "hoursPerDay", 24) / 24 * month
	default:
		if s.Hours = r.number(all, "hoursPerMonth", longestMonth); s.Hours > month {
			r.problem(all, "hoursPerMonth %s is more than the table's month has", all.Value)
		}
	}
	if at := f["statedSavingPercent"]; at != nil {
		saving := r.figure(at, "statedSavingPercent", 100)
		s.Saving = &saving
	}
	return s, len(r.problems) == before
}

// fields are a mapping's values by key, none of them null.
func (r *reader) fields(n *yaml.Node, what string, known ...string) (map[string]*yaml.Node, bool) {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "%s must be fields with values: %s", what, strings.Join(known, ", "))
		return nil, false
	}
	out := map[string]*yaml.Node{}
	good := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !contains(known, key.Value) {
			r.problem(key, "unknown field %q in %s%s", truncated(key.Value), what, manifest.Suggestion(key.Value, known))
			good = false
			continue
		}
		if value.Tag == "!!null" {
			r.problem(key, "%s is empty: give it a value, or remove it", key.Value)
			good = false
			continue
		}
		out[key.Value] = value
	}
	return out, good
}

// needs reports whether none of the fields is missing.
func (r *reader) needs(n *yaml.Node, f map[string]*yaml.Node, names ...string) bool {
	good := true
	for _, name := range names {
		if f[name] == nil {
			r.problem(n, "%s is missing", name)
			good = false
		}
	}
	return good
}

func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		r.problem(n, "%s must be a list", what)
		return nil
	case len(n.Content) > mostRows:
		r.problem(n, "%s has %d entries, the most are %d", what, len(n.Content), mostRows)
		return nil
	}
	return n.Content
}
