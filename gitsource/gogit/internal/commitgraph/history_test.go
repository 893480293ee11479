package commitgraph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
)

// commits makes commits by name, in the order of a text such as "a; b:a; m:b,a", each a second
// later than the one before, and keeps those that are not present out of the graph.
func commits(t *testing.T, text string, absent ...string) (*Graph, map[string]plumbing.Hash, map[plumbing.Hash]string) {
	t.Helper()
	all := memory.NewStorage()
	ids, names := map[string]plumbing.Hash{}, map[plumbing.Hash]string{}
	for i, c := range strings.Split(text, "; ") {
		name, parents, _ := strings.Cut(c, ":")
		var b strings.Builder
		fmt.Fprintf(&b, "tree %s\n", strings.Repeat("ab", 20))
		for p := range strings.SplitSeq(parents, ",") {
			if p != "" {
				fmt.Fprintf(&b, "parent %s\n", ids[p])
			}
		}
		fmt.Fprintf(&b, "author a <a@example.com> %d +0000\ncommitter a <a@example.com> %d +0000\n\n%s\n", 1767225600+i, 1767225600+i, name)
		o := new(plumbing.MemoryObject)
		o.SetType(plumbing.CommitObject)
		_, _ = o.Write([]byte(b.String()))
		id, err := all.SetEncodedObject(o)
		if err != nil {
			t.Fatal(err)
		}
		ids[name], names[id] = id, name
	}
	for _, name := range absent {
		delete(all.Objects, ids[name])
		delete(all.Commits, ids[name])
	}
	return New(objects.New(all)), ids, names
}

func named(names map[plumbing.Hash]string, ids []plumbing.Hash) []string {
	var out []string
	for _, id := range ids {
		out = append(out, names[id])
	}
	return out
}

func TestTheMergeBaseIsAsCertainAsWhatIsPresent(t *testing.T) {
	for name, c := range map[string]struct {
		text, absent string
		want         string
		open         []string
		older, alone bool
	}{
		"two branches":                           {"a; b:a; x:b; y:b", "", "b", nil, true, true},
		"one that is behind the other":           {"a; x:a; y:x", "", "x", nil, true, true},
		"branches that merged each other":        {"a; b:a; c:a; x:b,c; y:c,b", "", "c", nil, true, false},
		"histories that share nothing":           {"a; b; x:a; y:b", "", "", nil, false, false},
		"a common commit that is not present":    {"a; b:a; x:b; y:b", "b", "", []string{"x", "y"}, false, false},
		"a cut behind the merge base":            {"a; b:a; x:b; y:b", "a", "b", nil, true, true},
		"a cut of an old side branch beside it":  {"o; s:o; b; x:b,s; y:b", "o", "b", []string{"s"}, true, false},
		"a cut of a newer side branch beside it": {"o; b; s:o; x:b,s; y:b", "o", "b", []string{"s"}, false, false},
		"a root":                                 {"b; x:b; y:b", "", "b", nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, ids, names := commits(t, c.text, strings.Fields(c.absent)...)
			got, err := g.MergeBase(t.Context(), ids["x"], ids["y"])
			if err != nil {
				t.Fatal(err)
			}
			open := map[string]bool{}
			for _, n := range named(names, got.ShallowBoundary) {
				open[n] = true
			}
			want := map[string]bool{}
			for _, n := range c.open {
				want[n] = true
			}
			if diff := cmp.Diff(want, open); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			if names[got.Commit] != c.want || got.BoundaryOlder != c.older || got.Unique != c.alone {
				t.Errorf("%q, older %v, unique %v", names[got.Commit], got.BoundaryOlder, got.Unique)
			}
		})
	}
}

func TestAncestryIsUnknownBehindACut(t *testing.T) {
	for name, c := range map[string]struct {
		text, absent         string
		descendant, ancestor string
		want                 Reachability
		open                 []string
	}{
		"an ancestor":                        {"a; b:a; c:b", "", "c", "a", Reachability{Reachable: true}, nil},
		"itself":                             {"a; b:a; c:b", "", "c", "c", Reachability{Reachable: true}, nil},
		"a descendant":                       {"a; b:a; c:b", "", "a", "c", Reachability{}, nil},
		"a commit of another branch":         {"a; b:a; c:a", "", "b", "c", Reachability{BoundaryOlder: true}, nil},
		"the parent of a cut":                {"a; b:a; c:b", "a", "c", "a", Reachability{Reachable: true}, nil},
		"what may be behind a cut":           {"a; b:a; c:b; d:c", "a b", "d", "a", Reachability{}, []string{"c"}},
		"a newer commit than what cuts hide": {"a; b:a; c:b; d", "a", "c", "d", Reachability{BoundaryOlder: true}, []string{"b"}},
		"of a commit that is not present":    {"a; b:a", "b", "b", "a", Reachability{Unknown: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g, ids, names := commits(t, c.text, strings.Fields(c.absent)...)
			got, err := g.Reachable(t.Context(), ids[c.descendant], ids[c.ancestor])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.open, named(names, got.ShallowBoundary)); diff != "" {
				t.Errorf("open (-want +got):\n%s", diff)
			}
			if certain := len(c.open) == 0 && !c.want.Unknown; got.Certain() != certain {
				t.Errorf("certain: %v", got.Certain())
			}
			got.ShallowBoundary = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
