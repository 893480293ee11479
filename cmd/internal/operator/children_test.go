package operator

import (
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
)

func TestBuildsAreKeptForOneSyncAndWhatItFollows(t *testing.T) {
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
			c.forSync(sync("1", "https://git.example.com/a", "x")).Builds.Keep(tree, nil, []buildcache.Build{{Name: "a", Reads: []buildcache.Read{"fa.yaml"}, Content: []byte("rendered")}})
			if got := len(c.forSync(test.other).Builds.Valid(tree)); got != test.want {
				t.Errorf("%d builds count", got)
			}
			if c.followed.Builds != nil || c.ahead.Builds != nil || c.proposed.Builds != nil || c.forPullRequests("r").Builds != nil {
				t.Error("children of others keep builds")
			}
		})
	}
}
