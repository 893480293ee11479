package substitute_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
)

// whole does what Flux does: the library over the text of the whole object.
// It has no bounds, and panics.
func whole(o map[string]any, vars map[string]string, strict bool) (_ map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	text, err := sigsyaml.Marshal(o)
	if err != nil {
		return nil, err
	}
	out, err := envsubst.Eval(string(text), func(name string) (string, bool) {
		v, ok := vars[name]
		return strings.ReplaceAll(v, "\n", ""), ok || !strict
	})
	if err != nil {
		return nil, err
	}
	j, err := sigsyaml.YAMLToJSON([]byte(out))
	if err != nil {
		return nil, err
	}
	var value map[string]any
	return value, utiljson.Unmarshal(j, &value)
}

// agree fails where Flux comes to something else, or to nothing.
func agree(t *testing.T, o manifest.Object, vars map[string]string, strict bool) {
	t.Helper()
	out, problems, err := substitute.Apply([]manifest.Object{o}, values(t, vars), substitute.Options{Strict: strict})
	if err != nil || len(problems) > 0 {
		return // what is refused here and not there is held by other tests
	}
	want, err := whole(o.Object, vars, strict)
	if err != nil {
		t.Fatalf("Flux refuses what came to\n%s: %v", yamlOf(t, out[0].Object), err)
	}
	if d := cmp.Diff(want, out[0].Object); d != "" {
		t.Fatalf("from\n%s%s", yamlOf(t, o.Object), d)
	}
}

// pieces are what texts are put together from.
func pieces() []string {
	return []string{
		"${a}", "${b}", "${none}", "${none:=", "${none:-", "${a:=", "}", "$", "$$", "{", "${", "${a/", "/", "//", "#", "%", "%%", "^", "^^", ",", ",,",
		"${#a}", "${a:1", ":", "1", "2", "-1", "${a#", "${b##", "*", "?", "[", "\\", "x", "y z", " ", "\n", "'", "\"", ": ", " #", "- ", "${q}", "é", "_", "=", "\t", "|", ">", "&", "!", "~", "yes", "0x1", "1e3",
	}
}

func TestWhatIsNotRefusedIsWhatFluxComesTo(t *testing.T) {
	vars := map[string]string{"a": "xyx", "b": "1\n2", "q": `"`}
	all := pieces()
	// A fixed seed: a failure is to be found again.
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 20_000 {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			b.WriteString(all[r.IntN(len(all))])
		}
		o := textObject(b.String())
		if r.IntN(4) == 0 {
			o.Object["k"+b.String()] = []any{b.String(), map[string]any{"n": int64(1)}}
		}
		strict := r.IntN(2) == 0
		if _, problems, err := substitute.Apply([]manifest.Object{o}, values(t, vars), substitute.Options{Strict: strict}); err == nil && len(problems) == 0 {
			taken++
		}
		agree(t, o, vars, strict)
	}
	t.Logf("%d of 20,000 texts were taken", taken)
	if taken < 5_000 {
		t.Error("too few texts were taken to tell anything: ", taken)
	}
}

func FuzzNoTextLeaksASecretOrPanics(f *testing.F) {
	for _, s := range append(pieces(), "${TOKEN}", "${TOKEN:0:3}", "${none:=${TOKEN}}", "${TOKEN^^}", "poolwrightsealed") {
		f.Add("${TOKEN}", s, "stringData")
		f.Add(s, "${a}", "data")
	}
	const token = "SeCrEtToKeN4711"
	f.Fuzz(func(t *testing.T, key1, text, field string) {
		vars := substitute.Public("spec.substitute", map[string]string{"a": "xyx", "q": `"`})
		v, err := substitute.NewValues(fluxexpr.Parse, key, substitute.Secret("Secret ns/s", map[string][]byte{"TOKEN": []byte(token)}), vars)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"Secret", "ConfigMap"} {
			o := textObject(text)
			o.Object["kind"], o.Object[field] = kind, map[string]any{key1: text, "whole": "${TOKEN}"}
			out, problems, err := substitute.Apply([]manifest.Object{o}, v, substitute.Options{Strict: len(text)%2 == 0})
			var observed strings.Builder
			for _, p := range problems {
				observed.WriteString(p.String())
			}
			fmt.Fprint(&observed, err)
			for _, o := range out {
				b, err := json.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				observed.Write(b)
				masked, err := json.Marshal(substitute.Mask(o.Object))
				if err != nil || strings.Contains(string(masked), token) {
					t.Fatal("masked: ", err)
				}
				sent, err := substitute.Reveal(o.Object, v)
				if kind != "Secret" && err == nil && strings.Contains(fmt.Sprint(sent), token) {
					t.Fatalf("a ConfigMap is sent with the value of a Secret: %v", sent)
				}
				fmt.Fprint(&observed, err)
			}
			if strings.Contains(strings.ToLower(observed.String()), strings.ToLower(token)) {
				t.Fatalf("%q gives the value away: %s", text, observed.String())
			}
		}
	})
}

func FuzzAnObjectWithoutVariablesStaysAsItIs(f *testing.F) {
	for _, s := range []string{"a: b", "a: $x", "a: '{'", "a: [1, 2.5, yes, ~, '07']", "a: |\n  x\n  y\n"} {
		f.Add(s)
	}
	v := values(f, map[string]string{"a": "x"})
	f.Fuzz(func(t *testing.T, text string) {
		docs, problems, err := manifest.NewTree(nil, manifest.Limits{}).Parse("a.yaml", []byte(text))
		if err != nil || len(problems) > 0 || strings.Contains(text, "$") || strings.Contains(text, `\`) || strings.Contains(text, "!!") {
			return
		}
		for _, d := range docs {
			objects, _ := d.Objects()
			out, problems, err := substitute.Apply(objects, v, substitute.Options{Strict: true})
			if err != nil || len(problems) > 0 {
				t.Fatal(problems, err)
			}
			again, problems, err := substitute.Apply(out, v, substitute.Options{Strict: true})
			if d := cmp.Diff(objects, again, cmpopts.EquateEmpty()); d != "" || err != nil || len(problems) > 0 {
				t.Fatal(d, problems, err)
			}
		}
	})
}

func FuzzMarksThatWereNotMadeHereAreRefused(f *testing.F) {
	f.Add("poolwrightsealed" + strings.Repeat("0", 32) + "0008" + fmt.Sprintf("%x", "${TOKEN}"))
	f.Add("poolwrightsealed")
	f.Fuzz(func(t *testing.T, text string) {
		v := secretValues(t, key, token)
		o := map[string]any{"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"a": text}}
		got, err := substitute.Reveal(o, v)
		if err == nil && cmp.Diff(o, got) != "" {
			t.Fatalf("%q was revealed as %v", text, got)
		}
		_ = substitute.MaskText(text)
	})
}
