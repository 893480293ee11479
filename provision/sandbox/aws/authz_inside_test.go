package aws

import (
	"maps"
	"slices"
	"testing"
)

// TestEveryOperationNamesItsActions finds an operation that was added to a
// service's table and not to that of its questions, and questions of none.
func TestEveryOperationNamesItsActions(t *testing.T) {
	cloud, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range cloud.services {
		for _, op := range slices.Sorted(maps.Keys(s.table.Operations)) {
			if s.table.Authorizations[op] == nil {
				t.Errorf("%s %s has no line in its table of authorizations", name, op)
			}
		}
		for _, op := range slices.Sorted(maps.Keys(s.table.Authorizations)) {
			if _, emulated := s.table.Operations[op]; !emulated {
				t.Errorf("the table of authorizations has %s %s, which is not emulated", name, op)
			}
		}
	}
}
