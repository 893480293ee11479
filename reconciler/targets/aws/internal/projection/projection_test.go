package projection

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

func TestProjectionHasExactlyTheDesiredFields(t *testing.T) {
	type m = map[string]any
	desired := m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}}
	tests := []struct {
		name string
		live m
		same bool
	}{
		{"the same", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}}, true},
		{"fields that nobody requests", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}, "size": int64(3)}, true},
		{"others' tags", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra", "cost": "1"}}, true},
		{"a label too many", m{"retention": int64(300), "labels": m{"a": "b", "c": "d"}, "list": []any{"x"}, "tags": m{"team": "infra"}}, false},
		{"a tag that is gone", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{}}, false},
		{"a field that is gone", m{"labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}}, false},
		{"a longer list", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x", "y"}, "tags": m{"team": "infra"}}, false},
		{"nothing", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Satisfied(state.Item{Object: desired}, resource.Live{Object: tt.live}); got != tt.same {
				t.Errorf("got %v", got)
			}
		})
	}
}
