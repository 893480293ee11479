package canonical_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/canonical"
)

func TestAValueComesBackFromItsNode(t *testing.T) {
	for name, value := range map[string]any{
		"a map in a list":    []any{map[string]any{"b": int64(1), "a": "x"}},
		"a whole number":     int64(-7),
		"a fraction":         1.5,
		"a boolean":          true,
		"null":               nil,
		"a text like a null": "null",
		"an empty map":       map[string]any{},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(value, canonical.Value(canonical.Node(value))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodesOfOneMeaningHaveOneText(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"the order of keys is none":        {"a: 1\nb: 2", "b: 2\na: 1", true},
		"an alias is what it stands for":   {"a: &x [1]\nb: *x", "a: [1]\nb: [1]", true},
		"a number is no text":              {"a: 1", "a: '1'", false},
		"the order of a list is a meaning": {"a: [1, 2]", "a: [2, 1]", false},
		"null is nothing":                  {"null", "~", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(t, c.a) == text(t, c.b); got != c.same {
				t.Errorf("%q and %q", text(t, c.a), text(t, c.b))
			}
		})
	}
	if got := canonical.JSON(nil); got != "" {
		t.Errorf("an absent node is %q", got)
	}
}

func text(t *testing.T, in string) string {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(in), &n); err != nil {
		t.Fatal(err)
	}
	return canonical.JSON(n.Content[0])
}
