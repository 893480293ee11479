package loss

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestWhatWasAllowedCoversNoMore(t *testing.T) {
	for _, tt := range []struct {
		name         string
		allowed, now Counts
		covers       bool
	}{
		{"nothing covers nothing", nil, nil, true},
		{"nothing covers no node", nil, Counts{"Node": 1}, false},
		{"less is covered", Counts{"Node": 3, "Pod": 7}, Counts{"Pod": 2}, true},
		{"the same is covered", Counts{"Node": 3, "Pod": 7}, Counts{"Node": 3, "Pod": 7}, true},
		{"one more of few nodes is not", Counts{"Node": 4}, Counts{"Node": 5}, false},
		{"one more of many pods is not", Counts{"Pod": 50}, Counts{"Pod": 51}, false},
		{"but a fifth more than was confirmed is", Counts{"Pod": 50}.WithTolerance(), Counts{"Pod": 60}, true},
		{"more than a fifth is not", Counts{"Pod": 50}.WithTolerance(), Counts{"Pod": 61}, false},
		{"of four nodes there is no fifth", Counts{"Node": 4}.WithTolerance(), Counts{"Node": 5}, false},
		{"of volumes there is no fifth", Counts{"PersistentVolumeClaim": 50}.WithTolerance(), Counts{"PersistentVolumeClaim": 51}, false},
		{"one kind does not pay for another", Counts{"Node": 9}, Counts{"Pod": 1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.allowed.Covers(tt.now); got != tt.covers {
				t.Errorf("got %v", got)
			}
			if got := (&Approval{Losses: tt.allowed}).Covers(tt.now); got != tt.covers {
				t.Errorf("as an approval: %v", got)
			}
		})
	}
	if (*Approval)(nil).Covers(nil) {
		t.Error("what was never allowed covers something")
	}
}

// The parts of what is allowed are never more than it in all, however many there are.
func TestASumIsDividedWithoutRest(t *testing.T) {
	many := func(parts, nodes int) []Counts { return slices.Repeat([]Counts{{"Node": nodes}}, parts) }
	for _, tt := range []struct {
		name    string
		parts   []Counts
		allowed Counts
		want    []Counts
	}{
		{"one part has it all", []Counts{{"Node": 12, "Pod": 7}}, Counts{"Node": 14, "Pod": 7}, []Counts{{"Node": 14, "Pod": 7}}},
		{"in proportion", []Counts{{"Node": 8}, {"Node": 2}}, Counts{"Node": 15}, []Counts{{"Node": 12}, {"Node": 3}}},
		{"the largest remainder is rounded up", []Counts{{"Node": 6}, {"Node": 4}}, Counts{"Node": 12}, []Counts{{"Node": 7}, {"Node": 5}}},
		{"of equal ones the first", many(3, 4), Counts{"Node": 14}, []Counts{{"Node": 5}, {"Node": 5}, {"Node": 4}}},
		{"what no part has, none gets", []Counts{{"Node": 1}, nil}, Counts{"Node": 1, "Pod": 9}, []Counts{{"Node": 1}, {"Node": 0}}},
		{"no parts", nil, Counts{"Node": 3}, []Counts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, Divide(tt.parts, sumOf(tt.parts), tt.allowed)); d != "" {
				t.Error(d)
			}
		})
	}
	for parts := 1; parts < 30; parts++ {
		for allowed := parts; allowed < 90; allowed++ {
			now, sum := make([]Counts, parts), 0
			for i := range now {
				now[i] = Counts{"Pod": (allowed + i) % (allowed/parts + 1)}
				sum += now[i]["Pod"]
			}
			given := 0
			for i, share := range Divide(now, Counts{"Pod": sum}, Counts{"Pod": allowed}) {
				given += share["Pod"]
				if !share.Covers(now[i]) {
					t.Fatalf("%d allowed: a part of %v got %v", allowed, now[i], share)
				}
			}
			if sum > 0 && given != allowed {
				t.Fatalf("%d allowed of %v: %d given", allowed, now, given)
			}
		}
	}
}

func named(kind string, names ...string) Names {
	out := Names{}
	for _, name := range slices.Concat(names, names) {
		out.Add(kind, name)
	}
	return out
}

func sumOf(parts []Counts) Counts {
	out := Counts{}
	for _, part := range parts {
		out = out.Add(part)
	}
	return out
}

// What several deletions take along is lost once: a person who allows 10 nodes allows no
// 30 because three deletions name each of them.
func TestOfWhatSeveralDeletionsTakeAlongEachThingCountsOnce(t *testing.T) {
	of := func(nodes ...string) DeletionImpact {
		return named("Node", nodes...).DeletionImpact("nodes")
	}
	pods := func(nodes int, names ...string) DeletionImpact {
		return DeletionImpact{Impact: "pods", Losses: Counts{"Node": nodes, "Pod": len(names)}, Names: named("Pod", names...)}
	}
	for _, tt := range []struct {
		name string
		of   []DeletionImpact
		want Counts
	}{
		{"nothing", nil, Counts{}},
		{"one node of three deletions", []DeletionImpact{of("a"), of("a"), of("a")}, Counts{"Node": 1}},
		{"some in common", []DeletionImpact{of("a", "b"), of("b", "c")}, Counts{"Node": 3}},
		{"none in common", []DeletionImpact{of("a"), of("b")}, Counts{"Node": 2}},
		{"what has no name counts for each", []DeletionImpact{{Impact: "?", Losses: Counts{"Node": 2}}, of("a"), {Impact: "?", Losses: Counts{"Node": 1}}}, Counts{"Node": 4}},
		{"some of a kind have one", []DeletionImpact{{Impact: "x", Losses: Counts{"Node": 3}, Names: named("Node", "a")}, of("a")}, Counts{"Node": 3}},
		{"kinds are apart", []DeletionImpact{pods(1, "a/x", "a/y"), pods(0, "a/y", "b/y"), of("a/x")}, Counts{"Node": 2, "Pod": 3}},
		{"things that stand for themselves", []DeletionImpact{{Impact: "installation"}, {Impact: "installation"}, {}}, Counts{"Object": 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Union(tt.of); !got.Covers(tt.want) || !tt.want.Covers(got) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Deletions that share what they take along each get what they need, and together no
// more than was allowed beyond what they share.
func TestWhatIsSharedIsDividedToEach(t *testing.T) {
	parts := []Counts{{"Node": 10}, {"Node": 10}, {"Node": 5}}
	given := 0
	for i, share := range Divide(parts, Counts{"Node": 10}, Counts{"Node": 12}) {
		if !share.Covers(parts[i]) {
			t.Errorf("%v got %v", parts[i], share)
		}
		given += share["Node"] - parts[i]["Node"]
	}
	if given != 2 {
		t.Errorf("%d nodes were divided beyond the 10, want 2", given)
	}
}

func TestAnImpactWithoutNumbersIsTheThingItself(t *testing.T) {
	known := DeletionImpact{Impact: "it is known only by its label"}
	if d := cmp.Diff(Counts{"Object": 1}, known.EffectiveLosses()); d != "" {
		t.Error(d)
	}
	if (DeletionImpact{}).EffectiveLosses().Covers(known.EffectiveLosses()) || !known.EffectiveLosses().Covers(known.EffectiveLosses()) {
		t.Error("an ordinary thing's approval covers one with losses by now, or the same is not covered")
	}
}

func TestCountsAreReadAsTheyWereWritten(t *testing.T) {
	for _, c := range []Counts{{}, {"Node": 3}, {"Pod": 70, "Node": 3, "PersistentVolumeClaim": 1}} {
		got, ok := Parse(c.String())
		if d := cmp.Diff(c, got); !ok || d != "" {
			t.Errorf("%q: %v %s", c.String(), ok, d)
		}
	}
	for _, text := range []string{"x", "3Node", "+", "+Node", "+3", "+3Node+", "+3Node+4Node", "+-1Node", "+99999999999999999999Node", "+0Node+0Node",
		"+3Node\n", "+0\x1b[31m", "+3Node x", "+3Nöde", "+3-Node", "+3.Node", "+3N" + strings.Repeat("o", 63)} {
		if got, ok := Parse(text); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// FuzzParse reads any text; what it takes, it writes and reads again the same.
func FuzzParse(f *testing.F) {
	f.Add("+3Node+7Pod")
	f.Add("+0Node")
	f.Add("+0\x1b[31m\nEVIL [x](http://evil)")
	f.Add("+0Node+0Node+1N" + strings.Repeat("o", 62))
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := Parse(text)
		if !ok {
			return
		}
		for kind := range c {
			if len(kind) > 63 || strings.ContainsFunc(kind, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
				t.Errorf("%q has the kind %q", text, kind)
			}
		}
		again, ok := Parse(c.String())
		if !ok || !c.Covers(again) || !again.Covers(c) {
			t.Errorf("%q became %v, then %v", text, c, again)
		}
	})
}

func TestAllWaysInWhichOneChangeLosesAreOneRemoval(t *testing.T) {
	claims := Names{"NodeClaim": {"a": true, "b": true}}
	for _, tt := range []struct {
		name string
		of   []DeletionImpact
		want DeletionImpact
	}{
		{"none", nil, DeletionImpact{}},
		{"what both name counts once", []DeletionImpact{claims.DeletionImpact("off"), claims.DeletionImpact("no queue")}, claims.DeletionImpact("off; no queue")},
		{"what has no name, and what has one", []DeletionImpact{{Impact: "smaller", Losses: Counts{"Node": 2}}, claims.DeletionImpact("off")},
			DeletionImpact{Impact: "smaller; off", Losses: Counts{"Node": 2, "NodeClaim": 2}, Names: claims}},
		{"what could not be counted stays so", []DeletionImpact{claims.DeletionImpact("off"), {Impact: "no answer", Losses: Counts{Uncounted: 1}}},
			DeletionImpact{Impact: "off; no answer", Losses: Counts{"NodeClaim": 2, Uncounted: 1}, Names: claims}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, Combine(tt.of)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestNodesGoWithWhatCountsThem(t *testing.T) {
	for name, tt := range map[string]struct {
		of   Counts
		want bool
	}{
		"nothing":                   {nil, false},
		"a Node":                    {Counts{"Node": 1}, true},
		"a NodeClaim":               {Counts{"NodeClaim": 1}, true},
		"a NodePool":                {Counts{"NodePool": 1}, true},
		"what could not be counted": {Counts{Uncounted: 1}, true},
		"pods alone":                {Counts{"Pod": 7}, false},
		"none of a kind":            {Counts{"Node": 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.of.Nodes(); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
