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
