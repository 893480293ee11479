package grammar

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// sample are derivations of some seeds, new ones and mutated ones.
func sample(n int) []Derivation {
	out := []Derivation{}
	for seed := range uint64(n) {
		random := rand.New(rand.NewPCG(seed, 0))
		d := New(random)
		out = append(out, d)
		for range 5 {
			d = Mutate(random, d, New(random))
			out = append(out, d)
		}
	}
	return out
}

// little are sizes of which many fit into a test.
func little() Sizes {
	return Sizes{FileBytes: 16 << 10, TotalBytes: 64 << 10, Files: 200, Objects: 300}
}

func TestDerivationsAreOfTheGrammarAlsoOnceMutatedShrunkAndWritten(t *testing.T) {
	for _, d := range sample(30) {
		if !d.Valid() {
			t.Fatalf("not of the grammar: %v", d)
		}
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var again Derivation
		if err := json.Unmarshal(raw, &again); err != nil || !again.Valid() {
			t.Fatalf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(Files(d, little()), Files(again, little())); diff != "" {
			t.Fatal(diff)
		}
		smaller := Smaller(d)
		for _, s := range smaller[:min(len(smaller), 40)] {
			if !s.Valid() || s.Weight() > d.Weight() {
				t.Fatalf("%v is no smaller derivation than %v", s, d)
			}
		}
	}
}

func TestWhatIsNotOfTheGrammarIsNotValid(t *testing.T) {
	for name, d := range map[string]Derivation{
		"nothing":                     {},
		"a rule of another symbol":    {Rule: "configMap", N: []int{1}, Of: []Derivation{{Rule: "letters", N: []int{1}}}},
		"a part that must be there":   {Rule: "plain"},
		"a part of another symbol":    {Rule: "plain", Of: []Derivation{{Rule: "metadata"}}},
		"a number too many":           {Rule: "plain", N: []int{1}, Of: []Derivation{{Rule: "documents", N: []int{1}, Of: []Derivation{{Rule: "nodePool", N: []int{1, 1, 1, 0}}}}}},
		"a number beyond its bound":   {Rule: "plain", Of: []Derivation{{Rule: "documents", N: []int{0}, Of: []Derivation{{Rule: "nodePool", N: []int{1, 1, 1, 0}}}}}},
		"a rule that is not there":    {Rule: "plan"},
		"more parts than it may have": {Rule: "kustomized", Of: []Derivation{{Rule: "overlay", N: []int{1, 0}}, {Rule: "overlay", N: []int{1, 0}}}},
	} {
		if d.Valid() {
			t.Errorf("%s is valid", name)
		}
	}
}

func TestFilesAreYAMLWithinTheirSizes(t *testing.T) {
	most, kinds := little(), map[string]bool{}
	for _, d := range sample(60) {
		files := Files(d, most)
		total := 0
		for name, content := range files {
			total += len(content)
			if len(content) > most.FileBytes {
				t.Fatalf("%s has %d bytes", name, len(content))
			}
			dec := yaml.NewDecoder(strings.NewReader(content))
			for {
				var document yaml.Node
				err := dec.Decode(&document)
				if err == io.EOF { //nolint:errorlint // The decoder returns it as it is.
					break
				}
				if err != nil {
					t.Fatalf("%s of %v: %v\n%.300s", name, d, err, content)
				}
			}
		}
		if total > most.TotalBytes || len(files) > most.Files {
			t.Fatalf("%d bytes in %d files", total, len(files))
		}
		if _, ok := files[path.Join(Folder, "cluster.yaml")]; !ok && total < most.TotalBytes/2 {
			t.Errorf("no Cluster in %v", d)
		}
		for _, p := range d.places() {
			kinds[p.Rule] = true
		}
	}
	for _, r := range rules {
		if !kinds[r.name] {
			t.Errorf("no derivation has the rule %q", r.name)
		}
	}
}

func TestEachNumberAndPartOfARuleChangesWhatIsWritten(t *testing.T) {
	for _, r := range rules {
		least := minimal(r)
		was := within(least)
		for i, b := range r.numbers {
			if b.least == b.most {
				continue
			}
			more := least.clone()
			more.N[i] = min(b.most, 3+b.least)
			if cmp.Equal(was, within(more)) {
				t.Errorf("%s: number %d changes nothing", r.name, i)
			}
		}
	}
}

// minimal is the least derivation of a rule.
func minimal(r rule) Derivation {
	out := Derivation{Rule: r.name}
	for _, b := range r.numbers {
		out.N = append(out.N, b.least)
	}
	for _, p := range r.parts {
		for range max(p.least, 1) {
			out.Of = append(out.Of, minimal(rulesOf(p.symbol)[0]))
		}
		if r.symbol == layer {
			break // A layer of layers would not end.
		}
	}
	return out
}

// within are the files of a repository with a derivation in it. A number that multiplies
// something has two of it.
func within(d Derivation) map[string]string {
	r, _ := ruleNamed(d.Rule)
	switch r.symbol {
	case text:
		return within(Derivation{Rule: "configMap", N: []int{1}, Of: []Derivation{d}})
	case value:
		return within(Derivation{Rule: "widget", Of: []Derivation{d}})
	case object:
		return within(Derivation{Rule: "documents", N: []int{1}, Of: []Derivation{d}})
	case entry:
		return within(Derivation{Rule: "overlay", N: []int{1, 0}, Of: []Derivation{d}})
	case layer:
		return within(Derivation{Rule: "kustomized", Of: []Derivation{{Rule: "overlay", N: []int{1, 0}, Of: []Derivation{d}}}})
	case file:
		return Files(Derivation{Rule: "plain", Of: []Derivation{d}}, Documented())
	default:
		return Files(d, Documented())
	}
}
