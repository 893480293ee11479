package child

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// BenchmarkDecode decodes a folder of 10,000 objects as it is cached.
func BenchmarkDecode(b *testing.B) {
	r := &Runner{Limits: Limits{Output: 32 << 20, Decoded: 192 << 20}}
	raw, err := r.Render(b.Context(), inKustomizations(10_000), "x", substitute.Values{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if found, err := r.Decode(raw); err != nil || found.Set.Len() != 10_000 {
			b.Fatal(found.Set.Len(), err)
		}
	}
}
