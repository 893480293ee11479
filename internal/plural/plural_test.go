package plural_test

import (
	"testing"

	"github.com/poolwright/poolwright/internal/plural"
)

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "node", "0 nodes"},
		{1, "node", "1 node"},
		{2, "node", "2 nodes"},
		{1, "policy", "1 policy"},
		{2, "policy", "2 policies"},
		{3, "key", "3 keys"},
		{1, "EC2NodeClass", "1 EC2NodeClass"},
		{2, "EC2NodeClass", "2 EC2NodeClasses"},
	} {
		if got := plural.Count(tt.n, tt.noun); got != tt.want {
			t.Errorf("%d of %q are %q, not %q", tt.n, tt.noun, got, tt.want)
		}
	}
}

func TestFirstOf(t *testing.T) {
	for _, tt := range []struct {
		texts     []string
		separator string
		want      string
	}{
		{nil, ", ", ""},
		{[]string{"a"}, ", ", "a"},
		{[]string{"a", "b"}, ", ", "a, b"},
		{[]string{"a", "b", "c"}, ", ", "a, b and 1 more"},
		{[]string{"a", "b"}, "; ", "a; b"},
		{[]string{"a", "b", "c", "d"}, "; ", "a; b; and 2 more"},
	} {
		if got := plural.FirstOf(tt.texts, 2, tt.separator); got != tt.want {
			t.Errorf("the first 2 of %q are %q, not %q", tt.texts, got, tt.want)
		}
	}
}
