package operator

import (
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/part"
)

func TestPartsAreKeptForOneSyncAndWhatItFollows(t *testing.T) {
	sync := func(uid types.UID, url, path string) *v1alpha1.Sync {
		s := &v1alpha1.Sync{}
		s.UID, s.Spec.Source.Git.URL, s.Spec.Path = uid, url, path
		return s
	}
	tree := fstest.MapFS{"a.yaml": {Data: []byte("a")}}
	for _, test := range []struct {
		name  string
		other *v1alpha1.Sync
		want  int
	}{
		{"the same Sync", sync("1", "https://git.example.com/a", "x"), 1},
		{"another Sync of the same folder", sync("2", "https://git.example.com/a", "x"), 0},
		{"another repository", sync("1", "https://git.example.com/b", "x"), 0},
		{"another folder", sync("1", "https://git.example.com/a", "y"), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChildren()
			c.forSync(sync("1", "https://git.example.com/a", "x")).Parts.Keep(tree, nil, []part.Part{{Name: "a", Reads: []part.Read{"fa.yaml"}, Content: []byte("rendered")}})
			if got := len(c.forSync(test.other).Parts.Valid(tree)); got != test.want {
				t.Errorf("%d parts count", got)
			}
			if c.followed.Parts != nil || c.ahead.Parts != nil || c.proposed.Parts != nil || c.forPullRequests("r").Parts != nil {
				t.Error("children of others keep parts")
			}
		})
	}
}
