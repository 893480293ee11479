package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// list is a JSON list of n times a text, in which # is a number.
func list(n int, each string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(each, "#", fmt.Sprint(i)))
	}
	return "[" + b.String() + "]"
}

// TestWhatATextTakesDecodedIsNeverMoreThanEstimated decodes texts of all shapes that take
// much, and what people write, and weighs what comes of them.
func TestWhatATextTakesDecodedIsNeverMoreThanEstimated(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ten := "{" + strings.TrimPrefix(strings.TrimSuffix(list(10, `"key-#": #`), "]"), "[") + "}"
	for name, text := range map[string]string{
		"maps of one entry":   list(100_000, `{"a":0}`),
		"empty maps":          list(100_000, `{}`),
		"maps in maps":        list(20_000, `{"a":{"a":{"a":{}}}}`),
		"maps of ten entries": list(10_000, strings.ReplaceAll(ten, "#", "1")),
		"maps of a thousand":  list(100, "{"+strings.Trim(list(1000, `"key-#":#`), "[]")+"}"),
		"empty lists":         list(100_000, `[]`),
		"lists in lists":      list(50_000, `[[[0]]]`),
		"numbers":             list(200_000, `1234567`),
		"floating numbers":    list(200_000, `0.5`),
		"short texts":         list(200_000, `"a"`),
		"long texts":          list(20_000, `"`+strings.Repeat("x", 200)+`"`),
		"texts with marks":    list(20_000, `"`+strings.Repeat(`\"{[,`, 20)+`"`),
		"objects":             list(5_000, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-#","namespace":"default","labels":{"team":"infra","app":"x"}},"data":{"config.yaml":"`+strings.Repeat("x", 300)+`","mode":"fast"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			var v any
			if err := utiljson.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			took := heap() - before
			estimated, weighed := Decoded([]byte(text)), DecodedValue(v)
			t.Logf("%d KiB of text take %d KiB; estimated %d and %d", len(text)>>10, took>>10, estimated>>10, weighed>>10)
			for _, e := range []int64{estimated, weighed} {
				if e < took || e > 12*took {
					t.Errorf("%d KiB of text take %d KiB, estimated at %d", len(text)>>10, took>>10, e>>10)
				}
			}
			runtime.KeepAlive(v)
		})
	}
}
