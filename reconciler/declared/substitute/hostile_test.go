package substitute_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// textObject holds a text that need not be writable as YAML by hand.
func textObject(text string) manifest.Object {
	return manifest.Object{Item: state.Item{
		Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"a": text}},
		Origin: state.Origin{File: "a.yaml", Line: 1},
	}}
}

func TestHostileTextEndsSoon(t *testing.T) {
	long := strings.Repeat("a", 60<<10)
	v := values(t, map[string]string{"a": "x", "long": long, "x": strings.Repeat("x", 4<<10)})
	nested := func(n int) string { return strings.Repeat("${b:=", n) + strings.Repeat("}", n) }
	for name, text := range map[string]string{
		"a million variables": strings.Repeat("${a}", 1<<20),
		"a million different variables": func() string {
			var b strings.Builder
			for i := range 1 << 17 {
				fmt.Fprintf(&b, "${v%d:=1}", i)
			}
			return b.String()
		}(),
		"two million dollars":                strings.Repeat("$", 4<<20),
		"expressions that do not end":        strings.Repeat("${a", 1<<20),
		"braces without an expression":       strings.Repeat("${/}", 1<<20),
		"deep defaults":                      nested(1 << 18),
		"less deep defaults":                 strings.Repeat(nested(60), 1<<10),
		"braces in a replacement":            strings.Repeat("${a/"+strings.Repeat(`\\`, 1<<10)+strings.Repeat("}", 63)+"/}", 1<<10),
		"lengths multiplied":                 "${x//x/${x//x/${x//x/${x}}}}",
		"lengths added":                      strings.Repeat("${long}", 1<<19),
		"a pattern of stars on a long value": "${long##" + strings.Repeat("*a", 1<<10) + "b}",
		"many patterns": func() string {
			var b strings.Builder
			for i := range 1 << 16 {
				fmt.Fprintf(&b, "${x%%%%*%d}", i)
			}
			return b.String()
		}(),
		"a text cut out of its bounds": strings.Repeat("${a:1:9223372036854775807}", 1<<10),
		"control characters":           "\x00${a}\x01\x7f\u0085\u2028${a}\xff",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			out, problems, err := substitute.Apply([]manifest.Object{textObject(text)}, v, substitute.Options{Strict: true})
			// Generous: the machine may be busy. Without bounds it is hours.
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("took %v", d)
			}
			if err != nil {
				if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "LimitExceeded" {
					t.Error(class, reason, err)
				}
			}
			t.Logf("%v: %d objects, %d problems, %v", time.Since(start).Round(time.Millisecond), len(out), len(problems), err)
			if len(out) == 0 && len(problems) == 0 && err == nil {
				t.Error("the object is gone without a word")
			}
		})
	}
}

func TestAnExpressionThatGrowsTooLongIsAProblemOfItsOwn(t *testing.T) {
	v := values(t, map[string]string{"x": strings.Repeat("x", 4<<10), "short": "xx"})
	if got := problems(t, configMap("a: b\nc: ${x//x/${x}}"), v, substitute.Options{}); !strings.Contains(got, "a.yaml:7: ${x…} comes to more than 1 MiB") {
		t.Errorf("problems: %q", got)
	}
	if got := problems(t, configMap("c: ${short//x/${x}}"), v, substitute.Options{}); got != "" {
		t.Error(got)
	}
}

func TestLimitsHoldForAllObjectsTogether(t *testing.T) {
	v := values(t, map[string]string{"a": strings.Repeat("x", 1<<10)})
	var objects []manifest.Object
	for range 100 {
		objects = append(objects, textObject(strings.Repeat("${a}", 100)))
	}
	_, _, err := substitute.Apply(objects, v, substitute.Options{Limits: manifest.Limits{TotalBytes: 1 << 20}})
	if _, reason, _ := state.Classify(err); reason != "LimitExceeded" {
		t.Error(err)
	}
	_, _, err = substitute.Apply(objects, v, substitute.Options{Limits: manifest.Limits{FileBytes: 1 << 10}})
	if _, reason, _ := state.Classify(err); reason != "LimitExceeded" || !strings.Contains(err.Error(), "a.yaml:1") {
		t.Error(err)
	}
	if _, _, err = substitute.Apply(objects, v, substitute.Options{}); err != nil {
		t.Error(err)
	}
}

func TestAValueCannotLeaveItsPlace(t *testing.T) {
	for _, brk := range []string{"\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029"} {
		for _, value := range []string{"x" + brk + "added: 1", "x" + brk + "---" + brk + "a: b", brk + "added: 1"} {
			v := values(t, map[string]string{"a": value})
			for _, text := range []string{configMap("k: ${a}\nl: 1"), configMap("k: x ${a}"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nk: ${a}\n"} {
				objects, _ := read(t, text)
				out, problems, err := substitute.Apply(objects, v, substitute.Options{})
				if err != nil || len(out)+len(problems) != 1 {
					t.Fatal(out, problems, err)
				}
				if len(out) == 1 && strings.Contains(yamlOf(t, out[0].Object), "\nadded:") {
					t.Errorf("%q added a key: %s", value, yamlOf(t, out[0].Object))
				}
			}
		}
	}
}

func TestAValueCannotReachOtherFields(t *testing.T) {
	v := values(t, map[string]string{"q": `"`, "s": "'", "merge": "<<", "open": "{", "map": "{b: 2}", "hash": "#", "tag": "!!str", "anchor": "&x"})
	for _, c := range []struct{ name, in string }{
		{"a quote that closes in the next field", "a: ${q}\nb: ${q}"},
		{"a quote that closes two fields on", "a: ${q}\nb: x\nc: ${q}"},
		{"an apostrophe", "a: ${s}\nb: x\nc: ${s}"},
		{"a merge key", "a: 1\n${merge}: {b: 2, c: 3}"},
		{"an open bracket", "a: ${open}\nb: x\nc: $$}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := problems(t, configMap(c.in), v, substitute.Options{}); !strings.Contains(got, "filled in") {
				t.Errorf("problems: %q", got)
			}
		})
	}
	for _, in := range []string{"a: ${map}\nb: x", "a: ${hash} x\nb: x", "a: ${tag} 1\nb: x", "a: ${anchor} 1\nb: x", "a: ${q}x${q}\nb: ${s}y${s}"} {
		if got := problems(t, configMap(in), v, substitute.Options{}); got != "" {
			t.Errorf("%s: %s", in, got)
		}
	}
}
