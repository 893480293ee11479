package substitute_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

func TestTheVariablesOfATextAreThoseThatAreNotEscaped(t *testing.T) {
	plain := func(names ...string) (out []substitute.Use) {
		for _, n := range names {
			out = append(out, substitute.Use{Name: n})
		}
		return out
	}
	with := func(names ...string) []substitute.Use {
		out := plain(names...)
		for i := range out {
			out[i].Defaulted = true
		}
		return out
	}
	for text, want := range map[string][]substitute.Use{
		"":                     nil,
		"no variable $A ${} $": nil,
		"${A} and ${_b1}":      plain("A", "_b1"),
		"$${A} ${B} $$${C}":    plain("B", "C"),
		"${1A} ${-A} ${#}":     nil,
		"${#A} $#B #{C}":       plain("A"),
		"${A:0:3} ${B/x/y}":    plain("A", "B"),
		"${A:=x}${B:-x}":       with("A", "B"),
		"${A=x}${B-x}":         with("A", "B"),
		"${A:=${B:=x}}":        with("A", "B"),
		"${A that never ends":  plain("A"),
		"${ünï} ${A\x00}":      plain("A"),
		"${${A}":               plain("A"),
	} {
		if diff := cmp.Diff(want, substitute.Uses(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestAWalkNamesThePathOfEveryKeyAndText(t *testing.T) {
	var got []string
	substitute.Walk(map[string]any{"b": []any{"x", int64(1), map[string]any{"c": "y"}}, "a": nil}, func(path []string, key bool, text string) {
		at := ""
		for _, p := range path {
			at += "/" + p
		}
		if key {
			at += " is a key"
		}
		got = append(got, at+": "+text)
	})
	want := []string{"/a is a key: a", "/b is a key: b", "/b/0: x", "/b/2/c is a key: c", "/b/2/c: y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
