package fluxexpr_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
)

func TestOnlyOneWholeExpressionIsRead(t *testing.T) {
	for text, names := range map[string][]string{
		"${a}": {"a"}, "${a:=b}": {"a"}, "${a:=${b}}": {"a", "b"}, "${#a}": {"a"}, "${b/${a}/${b}}": {"a", "b"}, "${a:=x${b}y${c}}": {"a", "b", "c"},
		"": nil, "a": nil, "${a": nil, "${a} ": nil, "${a}${b}": nil, "$${a}": nil, "${}": nil, "${a b}": nil, "${a}}": nil, "$a": nil, "${a:=${b}": nil, "${AWS::Region}": nil,
	} {
		e, err := fluxexpr.Parse(text)
		if (err == nil) != (names != nil) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err == nil && !slices.Equal(e.Variables(), names) {
			t.Errorf("%q: %v", text, e.Variables())
		}
	}
}

func TestAMissingValueIsAnErrorUnlessThereIsADefault(t *testing.T) {
	for text, ok := range map[string]bool{"${a}": false, "${#a}": false, "${a^}": false, "${a:=}": true, "${a:-x}": true, "${a=x}": true, "${a:=${b}}": false} {
		e, err := fluxexpr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Evaluate(func(string) (string, bool) { return "", false }); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestThePanicOfTheLibraryEndsHere(t *testing.T) {
	e, err := fluxexpr.Parse("${a:1:9223372036854775807}")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Evaluate(func(string) (string, bool) { return "abc", true }); err == nil {
		t.Errorf("%q", got)
	}
}

func TestNothingComesToMoreThanItsCost(t *testing.T) {
	pieces := []string{"${a", "${b", "}", ":=", ":-", "//", "/", "/#", "/%", "^^", "^", ",,", "##", "#", "%%", "%", ":1", ":-2", "x", "ab", "*", "?", "ǰ"}
	// The letter ǰ has three bytes as a capital and two as it is.
	values := map[string]string{"a": strings.Repeat("xǰ", 20), "b": "ab"}
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 300_000 {
		text := pieces[r.IntN(2)]
		for range r.IntN(8) {
			text += pieces[r.IntN(len(pieces))]
		}
		e, err := fluxexpr.Parse(text + "}")
		if err != nil {
			continue
		}
		read++
		size, steps := e.Cost(func(name string) int { return len(values[name]) })
		got, err := e.Evaluate(func(name string) (string, bool) { return values[name], true })
		if err == nil && (len(got) > size || steps < 0) {
			t.Fatalf("%s} comes to %d bytes, not %d", text, len(got), size)
		}
	}
	if read < 1000 {
		t.Error("too few expressions were read to tell anything: ", read)
	}
}
