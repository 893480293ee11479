package loss

import (
	"testing"

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
		{"a fifth more of many pods is", Counts{"Pod": 50}, Counts{"Pod": 60}, true},
		{"more than a fifth is not", Counts{"Pod": 50}, Counts{"Pod": 61}, false},
		{"of volumes there is no fifth", Counts{"PersistentVolumeClaim": 50}, Counts{"PersistentVolumeClaim": 51}, false},
		{"one kind does not pay for another", Counts{"Node": 9}, Counts{"Pod": 1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.allowed.Covers(tt.now); got != tt.covers {
				t.Errorf("got %v", got)
			}
			if got := (&Allowance{Losses: tt.allowed}).Covers(tt.now); got != tt.covers {
				t.Errorf("as an allowance: %v", got)
			}
		})
	}
	if (*Allowance)(nil).Covers(nil) {
		t.Error("what was never allowed covers something")
	}
}

func TestWhatASumHasBecomeMoreCountsForNoPart(t *testing.T) {
	sum, allowed := Counts{"Node": 12, "Pod": 7}, Counts{"Node": 10, "Pod": 9}
	for _, tt := range []struct{ part, want Counts }{
		{Counts{"Node": 12, "Pod": 7}, Counts{"Node": 10, "Pod": 7}},
		{Counts{"Node": 1}, Counts{"Node": 1}},
		{Counts{"Node": 6}, Counts{"Node": 5}},
		{nil, Counts{}},
	} {
		if d := cmp.Diff(tt.want, tt.part.Share(sum, allowed)); d != "" {
			t.Errorf("of %v: %s", tt.part, d)
		}
	}
}

func TestAGraveThingWithoutNumbersStandsForItself(t *testing.T) {
	known := Removal{Grave: "it is known only by its label"}
	if d := cmp.Diff(Counts{"Object": 1}, known.Cost()); d != "" {
		t.Error(d)
	}
	if (Removal{}).Cost().Covers(known.Cost()) || !known.Cost().Covers(known.Cost()) {
		t.Error("an ordinary thing's allowance covers one that became grave, or the same is not covered")
	}
}

func TestCountsAreReadAsTheyWereWritten(t *testing.T) {
	for _, c := range []Counts{{}, {"Node": 3}, {"Pod": 70, "Node": 3, "PersistentVolumeClaim": 1}} {
		got, ok := Parse(c.String())
		if d := cmp.Diff(c, got); !ok || d != "" {
			t.Errorf("%q: %v %s", c.String(), ok, d)
		}
	}
	for _, text := range []string{"x", "3Node", "+", "+Node", "+3", "+3Node+", "+3Node+4Node", "+-1Node", "+99999999999999999999Node"} {
		if got, ok := Parse(text); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// FuzzParse reads any text; what it takes, it writes and reads again the same.
func FuzzParse(f *testing.F) {
	f.Add("+3Node+7Pod")
	f.Add("+0Node")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := Parse(text)
		if !ok {
			return
		}
		again, ok := Parse(c.String())
		if !ok || !c.Covers(again) || !again.Covers(c) {
			t.Errorf("%q became %v, then %v", text, c, again)
		}
	})
}
