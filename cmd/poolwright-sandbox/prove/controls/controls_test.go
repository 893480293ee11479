package controls

import (
	"strings"
	"testing"
)

const root = "../../../.."

func TestAControlsPassageStandsOnceInTheSource(t *testing.T) {
	known := map[string]bool{}
	for _, c := range All() {
		t.Run(c.Name, func(t *testing.T) {
			if known[c.Name] {
				t.Errorf("two controls have the name %s", c.Name)
			}
			known[c.Name] = true
			changed, err := c.changed(root)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(c.by, c.old) && strings.Contains(changed, c.old) || !strings.Contains(changed, c.by) {
				t.Errorf("the passage is still there, or what takes its place is not")
			}
			if named, err := Named(c.Name); err != nil || named != c {
				t.Errorf("the control of that name is %v, %v", named, err)
			}
			moved := c
			moved.old = "a passage that is not there"
			if _, err := moved.changed(root); err == nil {
				t.Error("a passage that is not there was replaced")
			}
		})
	}
	if _, err := Named("nothing"); err == nil {
		t.Error("there is a control of any name")
	}
}

func TestAControlIsFoundByCasesOrByATest(t *testing.T) {
	for _, c := range All() {
		if (c.Finds == "") == (c.test == "") {
			t.Errorf("%s has %q and %q", c.Name, c.Finds, c.test)
		}
	}
}
