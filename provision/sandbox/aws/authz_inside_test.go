package aws

import (
	"maps"
	"slices"
	"testing"
)

// TestEveryOperationSaysWhatItAsks finds an operation that was added to a
// service's table and not to that of its questions, and questions of none.
func TestEveryOperationSaysWhatItAsks(t *testing.T) {
	cloud, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range cloud.services {
		for _, op := range slices.Sorted(maps.Keys(s.ops)) {
			if s.asks[op] == nil {
				t.Errorf("%s %s has no line in the tables of authz_*.go", name, op)
			}
		}
		for _, op := range slices.Sorted(maps.Keys(s.asks)) {
			if _, played := s.ops[op]; !played {
				t.Errorf("the tables of authz_*.go know %s %s, which is not played", name, op)
			}
		}
	}
}
