package substitute_test

import (
	"fmt"
	"testing"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// many makes objects of about 60 fields.
func many(n int, text string) []manifest.Object {
	out := make([]manifest.Object, n)
	for i := range out {
		o := textObject(text)
		spec := map[string]any{}
		for j := range 20 {
			spec[fmt.Sprintf("field%d", j)] = map[string]any{"name": fmt.Sprintf("value-%d-%d", i, j), "list": []any{"a long enough text to look at", int64(j)}}
		}
		o.Object["spec"] = spec
		out[i] = o
	}
	return out
}

func TestObjectsWithoutVariablesCostNoMemory(t *testing.T) {
	v := values(t, map[string]string{"a": "x"})
	objects := many(2000, "$HOME and no more")
	per := testing.AllocsPerRun(3, func() {
		if out, problems, err := substitute.Apply(objects, v, substitute.Options{Strict: true}); err != nil || len(problems) > 0 || len(out) != len(objects) {
			t.Error(problems, err)
		}
	})
	if per > 6000 {
		t.Errorf("2,000 objects without variables cost %v allocations", per)
	}
}

func BenchmarkTwoThousandObjects(b *testing.B) {
	v := values(b, map[string]string{"a": "x"})
	for name, text := range map[string]string{"without variables": "$HOME", "with a variable each": "x ${a:=y}"} {
		b.Run(name, func(b *testing.B) {
			objects := many(2000, text)
			b.ReportAllocs()
			for b.Loop() {
				if _, problems, err := substitute.Apply(objects, v, substitute.Options{}); err != nil || len(problems) > 0 {
					b.Fatal(problems, err)
				}
			}
		})
	}
}
